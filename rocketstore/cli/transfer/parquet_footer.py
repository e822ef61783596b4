"""The footer of a Parquet file, with the places of its columns, for a file that becomes a part of a larger file.

A footer is a struct in Thrift's compact protocol. A field of a struct is a byte with the type of its value and the
difference to the number of the field before, and the value. Integers are varints in zigzag encoding.
"""

MAGIC = b"PAR1"
BOOLEANS, BYTE, INTEGERS, DOUBLE, BINARY, LISTS, STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12  # types of values
# The fields that are offsets in the file. A path has the numbers of fields, the first one of FileMetaData: row_groups
# is 4, its columns 1, their meta_data 3.
OFFSETS = {(4, 5), (4, 1, 2), (4, 1, 4), (4, 1, 6), (4, 1, 3, 9), (4, 1, 3, 10), (4, 1, 3, 11), (4, 1, 3, 14)}


def footer_of(data: bytes | memoryview) -> bytes:
    """Return the footer of a Parquet file, without its size and the magic at the end of the file."""
    size = int.from_bytes(data[-8:-4], "little")
    return bytes(data[-8 - size : -8])


def move_footer(footer: bytes, by: int) -> bytes:
    """Return a footer with all offsets larger by some bytes."""
    mover = Mover(footer, by)
    mover.read_struct(())
    return bytes(mover.moved + footer[mover.copied :])


class Mover:
    """Read a footer, and copy it with other offsets.

    Attributes: position: of the next byte to read. moved: the copy of the first ``copied`` bytes.
    """

    def __init__(self, footer: bytes, by: int) -> None:
        self.footer, self.by = footer, by
        self.position = self.copied = 0
        self.moved = bytearray()

    def read_struct(self, path: tuple[int, ...]) -> None:
        field = 0
        while (head := self.read_byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self.read_varint() >> 1
            if head & 15 not in BOOLEANS:  # their type is their value
                self.read_value(head & 15, (*path, field))

    def read_value(self, kind: int, path: tuple[int, ...]) -> None:
        begin = self.position
        if kind in INTEGERS:
            number = self.read_varint()
            if number and path in OFFSETS:  # 0: the writer does not give the offset
                self.moved += self.footer[self.copied : begin] + varint(number + 2 * self.by)
                self.copied = self.position
        elif kind == BINARY:
            size = self.read_varint()
            self.position += size
        elif kind == STRUCT:
            self.read_struct(path)
        elif kind in LISTS:
            head = self.read_byte()
            for _ in range(self.read_varint() if head >> 4 == 15 else head >> 4):
                self.read_value(head & 15, path)
        elif kind in (BYTE, DOUBLE, *BOOLEANS):
            self.position += 8 if kind == DOUBLE else 1
        else:
            raise ValueError(f"byte {begin} of a Parquet footer: type {kind} is unknown")

    def read_byte(self) -> int:
        self.position += 1
        return self.footer[self.position - 1]

    def read_varint(self) -> int:
        number = shift = 0
        while (byte := self.read_byte()) >= 128:
            number |= (byte & 127) << shift
            shift += 7
        return number | byte << shift


def varint(number: int) -> bytes:
    digits = bytearray()
    while number >= 128:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes((*digits, number))
