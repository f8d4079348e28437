"""Answers, with the installed Ansible's own code, which hosts the plays of a run would reach.

One JSON request a line: {"inventory": [PATH], "line": composed command line, "plays": [PATTERN]}. The inventory files are
read as Ansible reads them, the line is split and parsed as ansible-runner and ansible-playbook do. One JSON answer a line:
{"hosts": [[HOST]]} with a list for each play, or {"error": text} where Ansible would stop before any task.
"""
import contextlib
import io
import json
import shlex
import sys

from ansible.cli import CLI
from ansible.cli.playbook import PlaybookCLI
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.release import __version__
from ansible.utils.display import Display

for quiet in ("warning", "vvvv", "debug", "display", "error"):
    setattr(Display, quiet, lambda *args, **kwargs: None)


def limit_of(line):
    words = shlex.split("\n" + line.replace("$$", "$") + "\n\n")
    cli = PlaybookCLI(["ansible-playbook"])
    cli.init_parser()
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        return cli.parser.parse_args(words + ["-i", "none,", "play.yaml"]).subset


def answer(request):
    try:
        manager = InventoryManager(DataLoader(), sources=request["inventory"])
        CLI.get_host_list(manager, limit_of(request["line"]))
        return {"hosts": [sorted(h.name for h in manager.get_hosts(play)) for play in request["plays"]]}
    except (AnsibleError, SystemExit, ValueError, IndexError) as error:
        return {"error": str(error) or type(error).__name__}


print(__version__, flush=True)
for text in sys.stdin:
    print(json.dumps(answer(json.loads(text))), flush=True)
