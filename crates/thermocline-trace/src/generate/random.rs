//! Random numbers and a random bijection, from a seed.

/// The generator splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Return 64 random bits.
    #[inline]
    pub(crate) const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.state)
    }

    /// Draw a real number in \[0, 1), a multiple of 2^-53.
    #[inline]
    pub(crate) const fn real(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Draw a whole number less than `limit`; its bias is below `limit` / 2^64.
    #[inline]
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }
}

/// Return the output function of splitmix64.
const fn mixed(state: u64) -> u64 {
    let bits = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A seeded bijection on the page numbers below a limit.
///
/// Four Feistel rounds permute the smallest power of four that holds them all; a page that lands
/// beyond the limit is permuted again until it does not, which is a bijection as well.
#[derive(Clone, Debug)]
pub(crate) struct Scatter {
    limit: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Scatter {
    pub(crate) fn new(limit: u64, seed: u64) -> Self {
        assert!((1..=1 << 62).contains(&limit), "there are pages, and two halves hold them");
        let bits = u64::BITS - (limit - 1).leading_zeros();
        let mut random = SplitMix64::new(mixed(seed));
        let keys = std::array::from_fn(|_| random.bits());
        Self { limit, half_bits: bits.div_ceil(2), keys }
    }

    /// Return the place of a page.
    pub(crate) fn page(&self, page: u64) -> u64 {
        assert!(page < self.limit, "the bijection is on pages below the limit");
        let mask = (1 << self.half_bits) - 1;
        let mut image = page;
        loop {
            let (mut high, mut low) = (image >> self.half_bits, image & mask);
            for key in self.keys {
                (high, low) = (low, high ^ (mixed(low ^ key) & mask));
            }
            image = high << self.half_bits | low;
            if image < self.limit {
                return image;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_its_published_numbers() {
        // The first outputs for seed 1234567 of the reference implementation.
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn scattering_is_a_bijection() {
        for limit in [1, 2, 3, 4, 5, 16, 17, 1000] {
            let scatter = Scatter::new(limit, 7);
            let mut images: Vec<u64> = (0..limit).map(|page| scatter.page(page)).collect();
            if limit == 1000 {
                let adjacent = images.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
                assert!(adjacent < 10, "{adjacent} neighbours stayed neighbours");
            }
            images.sort_unstable();
            assert!(images.into_iter().eq(0..limit), "{limit}");
        }
    }
}
