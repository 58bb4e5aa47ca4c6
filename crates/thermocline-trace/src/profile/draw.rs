//! Draws from a tree.
//!
//! The outcomes of a leaf are a shuffled deck of cards, of which one after the other is taken; when all are
//! taken, the deck is shuffled again. So outcomes come as often as their counts say, not only in the mean.

use super::scale::Code;
use super::tree::{Card, Known, Leaf, Node};
use crate::generate::random::SplitMix64;

/// Cards of a deck, at most.
const CARDS_MAX: u64 = 1 << 20;

/// A tree to draw from.
#[derive(Clone, Debug)]
pub(super) struct Drawer {
    branches: Vec<Branch>,
    decks: Vec<Deck>,
    root: Next,
}

#[derive(Clone, Copy, Debug)]
struct Branch {
    known: usize,
    bound: u8,
    next: [Next; 2],
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Branch(u32),
    Deck(u32),
}

#[derive(Clone, Debug)]
struct Deck {
    is_relative: bool,
    kinds: Vec<Card>,
    /// Each a place in `kinds`.
    cards: Vec<u16>,
    taken: usize,
}

impl Drawer {
    pub(super) fn new(tree: &Node) -> Self {
        let mut drawer = Self { branches: vec![], decks: vec![], root: Next::Deck(0) };
        drawer.root = drawer.add(tree);
        drawer
    }

    fn add(&mut self, node: &Node) -> Next {
        let number = |len: usize| u32::try_from(len).expect("a profile has few nodes");
        match node {
            Node::Leaf(leaf) => {
                self.decks.push(Deck::new(leaf));
                Next::Deck(number(self.decks.len() - 1))
            }
            Node::Split { known, bound, low, high } => {
                let place = self.branches.len();
                let next = [Next::Deck(0); 2];
                self.branches.push(Branch { known: *known, bound: *bound, next });
                self.branches[place].next = [self.add(low), self.add(high)];
                Next::Branch(number(place))
            }
        }
    }

    /// Draws an outcome; returns it and whether it is a multiple of the mean gap. `None` if the
    /// leaf has no outcomes.
    #[inline]
    pub(super) fn draw(&mut self, known: Known, random: &mut SplitMix64) -> Option<(Code, bool)> {
        let mut next = self.root;
        loop {
            match next {
                Next::Branch(place) => {
                    let branch = &self.branches[place as usize];
                    next = branch.next[usize::from(known[branch.known] > branch.bound)];
                }
                Next::Deck(place) => return self.decks[place as usize].take(random),
            }
        }
    }
}

impl Deck {
    fn new(leaf: &Leaf) -> Self {
        let total: u64 = leaf.cards.iter().map(|card| u64::from(card.count)).sum();
        // A deck of more cards is made smaller, its rarest outcomes by rounding of the sums.
        let scaled = |sum: u64| {
            let scaled = u128::from(sum) * u128::from(CARDS_MAX.min(total)) / u128::from(total);
            u64::try_from(scaled).expect("a deck has at most CARDS_MAX cards")
        };
        let (mut cards, mut sum) = (vec![], 0);
        for (kind, card) in (0_u16..).zip(&leaf.cards) {
            let begin = scaled(sum);
            sum += u64::from(card.count);
            cards.extend((begin..scaled(sum)).map(|_| kind));
        }
        let taken = cards.len();
        Self { is_relative: leaf.is_relative, kinds: leaf.cards.clone(), cards, taken }
    }

    #[inline]
    fn take(&mut self, random: &mut SplitMix64) -> Option<(Code, bool)> {
        if self.taken == self.cards.len() {
            if self.cards.is_empty() {
                return None;
            }
            for place in (1..self.cards.len()).rev() {
                let other = random.below(place as u64 + 1);
                self.cards.swap(place, usize::try_from(other).expect("below a length"));
            }
            self.taken = 0;
        }
        self.taken += 1;
        let Card { first, last, .. } = self.kinds[usize::from(self.cards[self.taken - 1])];
        if first == last {
            return Some((first, self.is_relative));
        }
        let more = random.below(u64::from(last - first) + 1);
        Some((first + u16::try_from(more).expect("below a code"), self.is_relative))
    }
}
