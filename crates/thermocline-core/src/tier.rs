//! The places that can hold pages, fastest first, and the clients in front of them.

/// Number of cache tiers that lie between a client and the disk, at most.
pub const CACHE_TIERS_MAX: usize = 8;

/// Number of tiers a hierarchy may have: a first one per client, those that they share, and the disk.
pub const TIERS_MAX: usize = Clients::MAX as usize + CACHE_TIERS_MAX;

/// A tier by its position in the hierarchy: 0 is the fastest, the last one is the disk.
///
/// With several clients, tier 0 is the first tier of client 0, tier 1 that of client 1 and so on;
/// the tiers that all of them share come after these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Tier(pub u8);

impl Tier {
    /// The RAM of a `ram, flash, disk` hierarchy.
    pub const RAM: Self = Self(0);
    /// The flash of a `ram, flash, disk` hierarchy.
    pub const FLASH: Self = Self(1);
    /// The disk of a `ram, flash, disk` hierarchy.
    pub const DISK: Self = Self(2);

    /// Return the tier as an index into a per-tier table.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of clients that share a hierarchy, from 1 to [`MAX`](Self::MAX).
///
/// Each has a first tier of its own, which no other client sees; all further tiers are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Clients {
    number: u8,
    /// `true` if the last one keeps nothing.
    has_guest: bool,
}

impl Clients {
    /// One client: every tier exists once.
    pub const ONE: Self = Self { number: 1, has_guest: false };
    /// The most clients.
    pub const MAX: u8 = 16;

    /// Return a number of clients; `None` if it is 0 or more than [`MAX`](Self::MAX).
    pub fn new(clients: usize) -> Option<Self> {
        let number =
            u8::try_from(clients).ok().filter(|number| (1..=Self::MAX).contains(number))?;
        Some(Self { number, has_guest: false })
    }

    /// Return the same clients and one more, which keeps nothing: its first tier has no page. `None` if they
    /// are too many.
    pub fn and_guest(self) -> Option<Self> {
        let number = self.number.checked_add(1).filter(|&number| number <= Self::MAX)?;
        Some(Self { number, has_guest: true })
    }

    /// Return the client that keeps nothing.
    pub const fn guest(self) -> Option<u8> {
        if self.has_guest { Some(self.number - 1) } else { None }
    }

    /// Return the number.
    pub const fn get(self) -> u8 {
        self.number
    }

    /// Return `true` if a tier belongs to one client alone.
    pub const fn owns(self, tier: Tier) -> bool {
        tier.0 < self.number
    }

    /// Return `true` if a client reaches a tier: its own first one, or a shared one.
    pub const fn sees(self, client: u8, tier: Tier) -> bool {
        tier.0 == client || !self.owns(tier)
    }
}

impl Default for Clients {
    fn default() -> Self {
        Self::ONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_few() {
        assert_eq!([0, 17, 256].map(Clients::new), [None; 3]);
        let two = Clients::new(2).unwrap();
        assert_eq!((Clients::new(1), Clients::new(16).unwrap().get()), (Some(Clients::ONE), 16));
        let guest = two.and_guest().unwrap();
        assert_eq!((guest.get(), guest.guest(), two.guest()), (3, Some(2), None));
        assert_eq!(Clients::new(16).unwrap().and_guest(), None);
        assert_eq!([0, 1, 2].map(|tier| two.owns(Tier(tier))), [true, true, false]);
        assert_eq!([0, 1, 2].map(|tier| two.sees(1, Tier(tier))), [false, true, true]);
    }
}
