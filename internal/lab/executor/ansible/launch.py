"""Starts ansible-playbook as ansible-runner does: with the words of a file first, split as a shell would."""

import os
import shlex
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    words = shlex.split(file.read())
os.execvp("ansible-playbook", ["ansible-playbook", *words, *sys.argv[2:]])
