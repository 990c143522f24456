//! HighwayHash with 128 bits, portable: four lanes of 64 bits, and packets of 32 bytes.

type Lanes = [u64; 4];

/// The key of Redisson (`org.redisson.misc.Hash`).
const KEY: Lanes = [0x9e37_79b9_7f4a_7c15, 0xf39c_c060_5ced_c834, 0x1082_276b_f3a2_7251, 0xf86c_6a11_d0c1_8e95];
const FIRST: Lanes = [0xdbe6_d5d5_fe4c_ce2f, 0xa409_3822_299f_31d0, 0x1319_8a2e_0370_7344, 0x243f_6a88_85a3_08d3];
const SECOND: Lanes = [0x3bd3_9e10_cb0e_f593, 0xc0ac_f169_b5f1_8a8c, 0xbe54_66cf_34e9_0c6c, 0x4528_21e6_38d0_1377];
/// Length of a packet in bytes.
const PACKET: usize = 32;
/// The low half of a lane.
const LOW: u64 = 0xffff_ffff;
/// Number of rounds at the end. It depends on the number of bits of the hash.
const ROUNDS: u32 = 6;

pub(crate) fn h128(bytes: &[u8]) -> [u64; 2] {
    let mut state = State::new();
    let (packets, rest) = bytes.as_chunks::<PACKET>();
    packets.iter().for_each(|packet| state.update(lanes(packet)));
    if !rest.is_empty() {
        state.update_rest(rest);
    }
    (0..ROUNDS).for_each(|_| state.permute());
    let sum = |lane: usize| {
        let low = state.v0[lane].wrapping_add(state.mul0[lane]);
        low.wrapping_add(state.v1[lane + 2]).wrapping_add(state.mul1[lane + 2])
    };
    [sum(0), sum(1)]
}

struct State {
    v0: Lanes,
    v1: Lanes,
    mul0: Lanes,
    mul1: Lanes,
}

impl State {
    fn new() -> Self {
        let mut state = Self { v0: FIRST, v1: SECOND, mul0: FIRST, mul1: SECOND };
        for (lane, key) in KEY.into_iter().enumerate() {
            state.v0[lane] ^= key;
            state.v1[lane] ^= key.rotate_left(32);
        }
        state
    }

    fn update(&mut self, packet: Lanes) {
        for (lane, word) in packet.into_iter().enumerate() {
            self.v1[lane] = self.v1[lane].wrapping_add(self.mul0[lane]).wrapping_add(word);
            self.mul0[lane] ^= product(self.v1[lane], self.v0[lane]);
            self.v0[lane] = self.v0[lane].wrapping_add(self.mul1[lane]);
            self.mul1[lane] ^= product(self.v0[lane], self.v1[lane]);
        }
        mix(&self.v1, &mut self.v0);
        mix(&self.v0, &mut self.v1);
    }

    /// Adds the last bytes, which are fewer than a packet. Their count is part of the hash.
    fn update_rest(&mut self, rest: &[u8]) {
        let count = rest.len() as u64;
        for lane in 0..4 {
            self.v0[lane] = self.v0[lane].wrapping_add(count << 32 | count);
            self.v1[lane] = rotate_halves(self.v1[lane], rest.len());
        }
        let (words, tail) = rest.split_at(rest.len() & !3);
        let mut packet = [0; PACKET];
        packet[..words.len()].copy_from_slice(words);
        if rest.len() >= 16 {
            packet[PACKET - 4..].copy_from_slice(&rest[rest.len() - 4..]);
        } else if let (Some(first), Some(last)) = (tail.first(), tail.last()) {
            packet[16..19].copy_from_slice(&[*first, tail[tail.len() / 2], *last]);
        }
        self.update(lanes(&packet));
    }

    fn permute(&mut self) {
        let [first, second, third, fourth] = self.v0.map(|lane| lane.rotate_left(32));
        self.update([third, fourth, first, second]);
    }
}

fn lanes(packet: &[u8; PACKET]) -> Lanes {
    let mut lanes = [0; 4];
    let (words, _) = packet.as_chunks::<8>();
    lanes.iter_mut().zip(words).for_each(|(lane, word)| *lane = u64::from_le_bytes(*word));
    lanes
}

/// The product of the low half of one number and the high half of the other.
fn product(low: u64, high: u64) -> u64 {
    (low & LOW) * (high >> 32)
}

/// Rotates each half of 32 bits to the left, by 1 to 31 bits.
fn rotate_halves(lane: u64, bits: usize) -> u64 {
    let rotate = |half: u64| (half << bits | half >> (32 - bits)) & LOW;
    rotate(lane >> 32) << 32 | rotate(lane & LOW)
}

/// Adds to each pair of lanes the bytes of the other pair, in another order.
fn mix(from: &Lanes, to: &mut Lanes) {
    for pair in [0, 2] {
        let [even, odd] = [from[pair], from[pair + 1]].map(u64::to_le_bytes);
        let mixed = [even[3], odd[4], even[2], even[5], odd[6], even[1], odd[7], even[0]];
        to[pair] = to[pair].wrapping_add(u64::from_le_bytes(mixed));
        let mixed = [odd[3], even[4], odd[2], odd[5], odd[1], even[6], odd[0], even[7]];
        to[pair + 1] = to[pair + 1].wrapping_add(u64::from_le_bytes(mixed));
    }
}
