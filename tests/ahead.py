"""Which programs of a task were made before they were called."""

import threading

from lisdd_jax.numerics import compilation


class Recorder:
    """A store that compiles nothing ahead, and notes what it was asked for, and from where."""

    def __init__(self):
        self.ahead, self.called = [], []

    def fetch(self, description, lower):
        if threading.current_thread() is not threading.main_thread():
            self.ahead.append(description)
            return None
        self.called.append(description)
        return lower().compile()

    def load(self, description):
        raise AssertionError(description)

    def recall(self, task):
        return []

    def release(self):
        self.called.clear()

    def note(self, task, descriptions):
        assert list(dict.fromkeys(self.called)) == descriptions


def programs_of(call):
    """Descriptions of the programs that a call made ahead, and of those that it took."""
    recorder = Recorder()
    compilation.keep_programs(recorder)
    try:
        call()
    finally:
        compilation.keep_programs(None)
    return set(recorder.ahead), set(recorder.called)
