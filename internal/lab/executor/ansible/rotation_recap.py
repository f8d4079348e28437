"""Writes the hosts of Ansible's recap as JSON to the file that ROTATION_LAB_RECAP names."""

import json
import os

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: rotation_recap
type: aggregate
short_description: writes the hosts of the recap as JSON
description: Writes the hosts of Ansible's recap as JSON to the file that ROTATION_LAB_RECAP names.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "rotation_recap"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_stats(self, stats):
        hosts = {name: sorted(getattr(stats, name)) for name in ("processed", "failures", "dark")}
        with open(os.environ["ROTATION_LAB_RECAP"], "w", encoding="utf-8") as file:
            json.dump(hosts, file)
