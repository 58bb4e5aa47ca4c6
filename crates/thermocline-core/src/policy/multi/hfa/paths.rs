//! The levels on the path of a client, and how often P-HFA passes pages up along it.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, Fig. 2; Gill, FAST 2008, for
//!   the probabilities.
//! * State: none of its own.
//! * Cost: O(1) per level.
//! * Deviations: see the policy.

use alloc::vec;
use alloc::vec::Vec;

use super::hint_table::HintTable;
use super::level::Level;
use super::settings::{Settings, Strategy};
use super::{Hfa, Part};
use crate::config::Values;
use crate::policy::multi::probabilities::{self, Adaptation};
use crate::{Setup, Tier};

impl<const STRATEGY: u8> Hfa<STRATEGY> {
    /// Create the levels of the tiers that have room for pages.
    pub(super) fn levels(
        part: Part,
        setup: &Setup,
        tiers: &[(Tier, u32)],
        settings: &Settings,
        values: &Values,
    ) -> Vec<Level> {
        let (pages, clients) = (setup.geometry.pages(), setup.clients);
        let given = match Self::STRATEGY {
            Strategy::Promote => probabilities::fixed(values),
            Strategy::Demote | Strategy::Hint => Some(0.0),
        };
        let mut levels = vec![];
        for (index, &(tier, capacity_pages)) in tiers.iter().enumerate() {
            // A page of a first tier goes down to the first shared one.
            let below = (index + 1).max(clients.get().into());
            let promotion = match tiers.get(below) {
                Some(&(_, pages)) => {
                    // A client that keeps nothing has no tier.
                    let above = tiers[..below].iter().filter(|it| Some(it.0.0) != clients.guest());
                    let above = above.map(|tier| f64::from(tier.1)).sum();
                    Adaptation::new(above, f64::from(pages), given)
                }
                None => Adaptation::never(),
            };
            let mut level = Level::new(tier, capacity_pages, pages, promotion, settings);
            if part == Part::Server && clients.owns(tier) {
                // The client keeps the hints of its own tier, so a table here would only cost
                // memory.
                level.hints = HintTable::new(pages, 0, settings.k);
            }
            levels.push(level);
        }
        levels
    }

    /// Return `true` if a level is the first of a client.
    #[inline]
    pub(super) fn is_top(&self, level: usize) -> bool {
        level < usize::from(self.clients.get())
    }

    /// Return the level above a shared one, on the path of the client.
    #[inline]
    pub(super) fn above(&self, level: usize) -> usize {
        if self.is_top(level - 1) { self.client.into() } else { level - 1 }
    }

    /// Return the level below another one, or the number of levels.
    #[inline]
    pub(super) fn below(&self, level: usize) -> usize {
        (level + 1).max(self.clients.get().into())
    }

    /// Return the last level that the client sees.
    #[inline]
    pub(super) fn lowest(&self) -> usize {
        let last = self.levels.len() - 1;
        if self.is_top(last) { self.client.into() } else { last }
    }

    /// Return the time between the last uses of a level's newest and oldest page, for P-HFA.
    pub(super) fn life(&self, level: usize) -> u64 {
        if self.part == Part::Server && self.is_top(level) {
            return self.said[level];
        }
        let Some(ages) = &self.ages else { return 0 };
        let stamp = |frame: Option<u32>| {
            let frame = frame.map(|frame| self.queues.frame(frame));
            frame.map_or(0, |frame| frame.loaded.max(frame.last_hit))
        };
        let list = u32::try_from(level).expect("a hierarchy has few tiers");
        stamp(ages.front(list)) - stamp(ages.back(list))
    }

    /// Compare, for P-HFA, the lifetime in each tier that the access reaches with that in the tier above.
    #[inline]
    pub(super) fn adapt_promotion(&mut self, reached: usize) {
        if Self::STRATEGY != Strategy::Promote {
            return;
        }
        let mut above = usize::from(self.client);
        let shared = usize::from(self.clients.get())..self.levels.len();
        for below in shared.take_while(|&level| level <= reached) {
            let capacity_pages = self.levels[below].capacity_pages;
            if !self.levels[above].promotion.is_early(self.now, capacity_pages) {
                let lifetimes = [above, below].map(|level| self.life(level));
                self.levels[above].promotion.adapt(self.now, lifetimes, capacity_pages);
            }
            above = below;
        }
    }
}
