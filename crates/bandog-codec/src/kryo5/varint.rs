//! Numbers of Kryo in groups of 7 bits.

/// Writes a number in groups of 7 bits, the lowest group first. A ninth byte has 8 bits.
pub(super) fn write(mut value: u64, to: &mut Vec<u8>) {
    for _ in 0..8 {
        if value < 0x80 {
            break;
        }
        to.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    to.push(value.to_le_bytes()[0]);
}

/// Reads bytes that are exactly one number in its shortest form.
pub(super) fn read(bytes: &[u8]) -> Option<u64> {
    let (last, before) = bytes.split_last()?;
    let is_shortest = before.is_empty() || *last != 0;
    let is_one = before.len() <= 8 && before.iter().all(|byte| *byte >= 0x80) && (before.len() == 8 || *last < 0x80);
    let groups = before.iter().map(|byte| byte & 0x7f).chain([*last]);
    let value = || groups.enumerate().fold(0, |value, (at, group)| value | u64::from(group) << (7 * at));
    (is_shortest && is_one).then(value)
}
