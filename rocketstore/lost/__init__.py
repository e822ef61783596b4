"""Lost messages: which messages stood in damaged bytes of the log, and the records that can stand there instead.

1. ``bad_ranges`` finds the bytes of the log that are no sound record. 2. ``lost_units`` finds the units of queues that
lead there. 3. ``new_records`` lays out records over the damaged bytes, and ``record_maker`` encodes them. 4. ``plan``
joins the steps into a plan, which names each lost message. Nothing is changed here: the room ``patch`` does that.
"""
