"""The two ways a command ends early on purpose."""

USER_ERROR_STATUS = 2
PREEMPTED_STATUS = 75  # EX_TEMPFAIL: run the same command again


class UserError(Exception):
    """A mistake that the user can mend: printed as one line, exit status 2, no traceback.

    The message names the thing, what was found and what was expected.
    """


class Preempted(Exception):
    """The run was told to stop and saved: exit status 75; the same command resumes it."""
