//! The hash slots of a Redis Cluster: which keys are on the same node.

/// Number of the slots of a cluster.
pub const SLOTS: u16 = 16_384;

/// The slot of a key.
pub fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

/// The hash tag of a key: the part in its first braces, or the whole key.
pub fn tag(key: &[u8]) -> &[u8] {
    let inner = || {
        let open = key.iter().position(|byte| *byte == b'{')?;
        let length = key[open + 1..].iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &key[open + 1..open + 1 + length])
    };
    inner().unwrap_or(key)
}

/// The checksum that Redis uses for slots: CRC-16 with the polynomial 0x1021.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // The values are replies of CLUSTER KEYSLOT.
        for (key, expected) in
            [("foo", 12182), ("{foo}.bar", 12182), ("a{foo}b{c}", 12182), ("", 0), ("123456789", 12739)]
        {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
        assert_eq!(slot(b"{}x"), crc16(b"{}x") % SLOTS);
        assert_eq!(slot(b"a{b"), crc16(b"a{b") % SLOTS);
    }
}
