"""Ctrl-C at each place of some work where Python may call the handler of a signal, one place in each run."""

import dis
import functools
import sys


@functools.cache
def find_places(code):
    """Return the offsets of the instructions before which Python may call the handler of a signal.

    These are the first instruction of a function, each instruction behind a call, and those to which a loop jumps back.
    """
    found, before = set(), ""
    for instruction in dis.get_instructions(code):
        if before.startswith(("CALL", "RESUME")):
            found.add(instruction.offset)
        before = instruction.opname
        if before.startswith("JUMP_BACKWARD"):
            found.add(instruction.argval)
    return found


def interrupt_at(number, work, files):
    """Do the work, and raise KeyboardInterrupt at one place of it. Return False if the work has fewer places.

    Parameters: number: of the place, from 1. files: the ends of the names of the files whose places count.
    Raises: AssertionError if the work lost the KeyboardInterrupt; any other error of the work.
    """
    left = number

    def at_instruction(frame, event, _argument):
        nonlocal left
        left -= event == "opcode" and frame.f_lasti in find_places(frame.f_code)
        if left == 0:
            sys.settrace(None)
            left = -1
            raise KeyboardInterrupt
        return at_instruction

    def at_call(frame, _event, _argument):
        if not frame.f_code.co_filename.endswith(files):
            return None
        frame.f_trace_opcodes = True
        return at_instruction

    sys.settrace(at_call)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    assert left > 0, f"the interruption at place {number} was lost"
    return False


def interrupt_everywhere(work, *files):
    """Do the work once for each of its places, with Ctrl-C there. Print one more than the number of places.

    Parameters: files: as of ``interrupt_at``.
    """
    number = 1
    while interrupt_at(number, work, files):
        number += 1
    work()
    print(number)
