"""The summary of .ci/run tells what passed from what was skipped and what failed."""

import pathlib
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

CHECKS = """
set -euo pipefail
export RESCIND_SKIPPED="$1"
source .ci/steps
passes() { true; }
skips() { skip "there is no compiler"; }
test_skips() { for _ in 1 2; do echo "there is no clangd" >>"$RESCIND_SKIPPED"; done; }
fails() { echo "it is broken"; false; }
sleeps() { sleep 60; }
"""


def run(steps):
    """Runs steps, and returns the exit code and the lines of the summary."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["bash", "-c", CHECKS + steps, "checks", f"{folder}/skipped"]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout.split("=== Summary ===\n")[1].splitlines()


class Summary(unittest.TestCase):
    def test_a_skipped_check_is_not_among_those_that_passed(self):
        code, lines = run('step One passes\nstep Two skips\nstep Three passes')
        self.assertEqual(code, 0)
        self.assertEqual([line.split()[0] for line in lines], ["passed", "passed", "skipped", "2"])
        self.assertTrue(lines[2].endswith("Two: there is no compiler"), lines)

    def test_a_test_that_skips_is_reported_once_with_its_reason(self):
        _, lines = run('step One test_skips\nstep Two passes')
        self.assertEqual(sum("One: there is no clangd" in line for line in lines), 1, lines)
        self.assertFalse(any(line.startswith("passed") and "One" in line for line in lines), lines)

    def test_the_check_that_failed_is_named_after_those_that_were_skipped(self):
        code, lines = run('step One skips\nstep Two fails\nstep Three passes')
        self.assertNotEqual(code, 0)
        self.assertEqual([line.split()[0] for line in lines], ["skipped", "FAILED"])
        self.assertTrue(lines[1].endswith("Two"), lines)

    def test_what_runs_beside_is_a_step_where_it_is_joined(self):
        code, lines = run('beside passes\nstep One passes\nstep Two join passes')
        self.assertEqual((code, [line.split()[-1] for line in lines[:2]]), (0, ["One", "Two"]))
        code, lines = run('beside fails\nstep One passes\nstep Two join fails\nstep Three passes')
        self.assertNotEqual(code, 0)
        self.assertEqual([line.split()[-1] for line in lines], ["One", "Two"])
        self.assertTrue(lines[1].startswith("FAILED"), lines)

    def test_a_check_that_runs_beside_and_is_skipped_is_told_with_its_own_step(self):
        _, lines = run('beside skips\nstep One passes\nstep Two join skips')
        self.assertEqual([line.split()[0] for line in lines[:2]], ["passed", "skipped"], lines)
        self.assertTrue(lines[1].endswith("Two: there is no compiler"), lines)

    def test_what_runs_beside_ends_with_a_check_that_fails(self):
        begun = time.monotonic()
        code, lines = run('beside sleeps\nstep One sleep 1\nstep Two fails\nstep Three join sleeps')
        self.assertNotEqual(code, 0)
        self.assertTrue(lines[1].endswith("Two"), lines)
        self.assertLess(time.monotonic() - begun, 30)


if __name__ == "__main__":
    unittest.main()
