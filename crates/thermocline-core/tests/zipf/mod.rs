//! A portable Zipf trace: 20,000 accesses to 4,000 pages, Zipf 0.9, 30 % writes.

use thermocline_core::Access;

/// Number of pages.
pub(crate) const PAGES: u32 = 4_000;

struct SplitMix64(u64);

impl SplitMix64 {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Return the trace.
pub(crate) fn accesses() -> Vec<Access> {
    let mut cumulated: Vec<f64> = (1..=PAGES)
        .scan(0.0, |sum, rank| {
            *sum += libm::pow(f64::from(rank), -0.9);
            Some(*sum)
        })
        .collect();
    let total = cumulated[cumulated.len() - 1];
    for value in &mut cumulated {
        *value /= total;
    }
    let mut random = SplitMix64(42);
    (0..20_000)
        .map(|_| {
            let draw = random.unit();
            let page = u32::try_from(cumulated.partition_point(|&value| value < draw)).unwrap();
            if random.unit() < 0.3 { Access::write(page) } else { Access::read(page) }
        })
        .collect()
}
