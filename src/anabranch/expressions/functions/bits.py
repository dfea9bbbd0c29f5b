"""Bits and bytes: bitmaps, hashes, encodings, encryption."""

from __future__ import annotations

from anabranch.expressions.functions.declaring import left_to_spark

BITS = left_to_spark(
    "bits",
    """
aes_decrypt: Bytes decrypted with AES.
aes_encrypt: Bytes encrypted with AES.
base64: Bytes written in base64.
bin: A whole number written in bits.
bit_count: How many bits are set.
bit_get, getbit: The bit at a place.
bitmap_bit_position: The place of a value in its bitmap.
bitmap_bucket_number: The number of the bitmap that holds a value.
bitmap_count: How many bits of a bitmap are set.
crc32: The checksum CRC 32.
decode: Bytes as text in a character set; or a choice by equal values.
encode: Text as bytes in a character set.
from_base32: Bytes of a text in base32.
hash: A hash of 32 bits (Murmur3).
hex: A number or bytes written in hex.
hmac: A keyed hash of bytes.
md5: The hash MD5, in hex.
sha, sha1: The hash SHA-1, in hex.
sha2: A hash of the family SHA-2, in hex.
shiftleft: The bits moved to the left.
shiftright: The bits moved to the right, with the sign.
shiftrightunsigned: The bits moved to the right, with zeros.
to_base32: Bytes written in base32.
try_aes_decrypt: As `aes_decrypt`, or NULL where it cannot be.
unbase64: Bytes of a text in base64.
unhex: Bytes of a text in hex.
xxhash64: A hash of 64 bits.
""",
)
