"""Ctrl-C at each place of some work at which Python calls the handler of a signal, one place after the other."""

import dis
import functools
import sys


@functools.cache
def places(code):
    """The offsets of the instructions of a function before which Python may call the handler of a signal.

    These are the instructions behind a call, where a function begins, and where a loop goes back.
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
    """Do the work, and interrupt it at a place in files with these names. Return whether it has so many places.

    Any error except KeyboardInterrupt is raised, and AssertionError if KeyboardInterrupt was lost.
    """
    left = number

    def at_instruction(frame, event, _argument):
        nonlocal left
        left -= event == "opcode" and frame.f_lasti in places(frame.f_code)
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
    """Do the work again and again, with Ctrl-C at one place after the other. Print the number of places.

    Parameters: files: the ends of the names of the files that have the places.
    """
    number = 1
    while interrupt_at(number, work, files):
        number += 1
    work()
    print(number)
