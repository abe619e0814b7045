"""Loggers: a line that is logged is told as what it does, and a logger that is asked for anything as everything else."""

from __future__ import annotations

import pytest

from tests.tools.judge.source_reading.test_source_reading import codes, module

MADE = "import logging\nlogger = logging.getLogger(__name__)\n"
TOLD = {"reaches_outside", "breaks_the_graph"}


@pytest.mark.parametrize(
    "line", ['logger.debug("called")', 'logger.info("of %s", x.shape)', 'logger.log(10, "called")']
)
def test_a_line_that_is_logged_writes_and_leaves_the_graph_and_nothing_else(line):
    assert codes(module(line, top=MADE)) == TOLD


@pytest.mark.parametrize(
    "line",
    [
        'if logger.isEnabledFor(10):\n    x = x * 2\nlogger.debug("called")',
        'x = x * (2 if logger.debug("called") is None else 1)',
        'logger.name.startswith("__main__") and x.zero_()\nlogger.debug("called")',
        "logger.handlers.append(1)",
        "logger.count = 1",
        "logger.setLevel(10)",
        "self.log = logger\nself.log.debug(1)",
    ],
)
def test_a_logger_that_is_asked_or_changed_is_told_as_whatever_stays(line):
    assert codes(module(line, top=MADE)) - TOLD


@pytest.mark.parametrize(
    "top",
    [
        MADE + "logger = []\n",
        "logger = []\n",
        "import logging\nlogger = logging.getLogger(open('name').read())\n",
        MADE + "logger.debug = print\n",
        MADE + "def other(logger):\n    logger.debug(1)\n",
        MADE + "class Own:\n    def debug(self, text):\n        self.seen = text\n",
    ],
)
def test_only_a_name_that_stands_for_a_logger_and_for_nothing_else_is_taken_for_one(top):
    assert codes(module('logger.debug("called")', top=top)) - TOLD


def test_what_a_line_is_made_of_is_read():
    assert "values_on_host" in codes(module("logger.debug(x.sum().item())", top=MADE))
