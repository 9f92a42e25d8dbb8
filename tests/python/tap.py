"""Runs the unittest cases of a module and prints results in the Test Anything Protocol, with reasons for what is skipped."""
import os
import sys
import unittest


class _Result(unittest.TestResult):
    def __init__(self, stream, count):
        super().__init__()
        self.stream, self.number, self.failed, self.failed_parts = stream, 0, 0, set()
        stream.write(f"1..{count}\n")

    def _line(self, ok, test, note=""):
        self.number += 1
        self.failed += not ok
        name = test.id().split(".", 1)[1] if hasattr(test, "id") else str(test)
        self.stream.write(f"{'ok' if ok else 'not ok'} {self.number} - {name}{note}\n")
        self.stream.flush()

    def _explain(self, error, test):
        for line in self._exc_info_to_string(error, test).rstrip().split("\n"):
            self.stream.write(f"# {line}\n")

    def addSuccess(self, test):
        self._line(True, test)

    def addSkip(self, test, reason):
        self._line(True, test, f" # SKIP {reason}")

    def addFailure(self, test, error):
        self._line(False, test)
        self._explain(error, test)

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.failed_parts.add(test)
            self.stream.write(f"# {subtest}\n")
            self._explain(error, test)

    def stopTest(self, test):
        super().stopTest(test)
        if test in self.failed_parts:
            self._line(False, test)


def main():
    """To be called by a test module that runs as a program; names given on the command line choose cases."""
    loader = unittest.TestLoader()
    module = sys.modules["__main__"]
    names = sys.argv[1:]
    suite = loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    result = _Result(sys.stdout, suite.countTestCases())
    suite.run(result)
    sys.stdout.flush()
    if result.failed:
        sys.exit(1)


def skip_all(reason):
    """Ends the program: nothing of it can run here."""
    print(f"1..0 # SKIP {reason}")
    sys.exit(0)


def environment_int(name, otherwise):
    """A number of repetitions, fewer where time is short."""
    return int(os.environ.get(name, otherwise))


def resident_bytes():
    """Memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
