"""Unpacks a kernel for qemu: the ELF image that a bzImage carries starts seconds sooner where the CPU is emulated.

usage: vmlinux.py BZIMAGE OUTPUT
"""

import lzma
import subprocess
import sys
import zlib

# Offsets into the image, from the Linux/x86 boot protocol: the length of the set-up code in sectors of 512 bytes, which
# begins after one more; then where the payload lies behind it, and how long it is.
SETUP_SECTORS, PAYLOAD_OFFSET, PAYLOAD_LENGTH = 0x1F1, 0x248, 0x24C
SECTOR, DEFAULT_SETUP_SECTORS = 512, 4


def payload(image):
    def word(offset):
        return int.from_bytes(image[offset:offset + 4], "little")

    begin = ((image[SETUP_SECTORS] or DEFAULT_SETUP_SECTORS) + 1) * SECTOR + word(PAYLOAD_OFFSET)
    return image[begin:begin + word(PAYLOAD_LENGTH)]


def unpacked(packed):
    """The payload ends with its length, which only zstd stumbles over: the others ignore what comes last."""
    if packed.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(packed)
    if packed.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(packed)
    if packed.startswith(b"\x28\xb5\x2f\xfd"):
        return subprocess.run(["zstd", "-dc"], input=packed[:-4], stdout=subprocess.PIPE, check=True).stdout
    sys.exit(f"a kernel that is compressed in an unknown way: {packed[:6].hex()}")


with open(sys.argv[1], "rb") as file:
    kernel = unpacked(payload(file.read()))
if not kernel.startswith(b"\x7fELF"):
    sys.exit(f"{sys.argv[1]} contains no ELF image")
with open(sys.argv[2], "wb") as file:
    file.write(kernel)
