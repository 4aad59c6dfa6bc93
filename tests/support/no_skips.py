"""A pytest plugin for `make test`: a test that was skipped fails the run, because what is not run proves nothing."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # With xdist the workers report to the controller, and that one decides.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_NoSkips(), "no_skips")


class _NoSkips:
    def __init__(self) -> None:
        self._skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self._skipped.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._skipped.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._skipped and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._skipped:
            terminalreporter.section("no test may be skipped")
            for nodeid in self._skipped:
                terminalreporter.line(nodeid)
