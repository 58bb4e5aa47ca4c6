//! Errors of building a policy or an identifier.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::fmt;

use crate::Tier;

/// Reason why a policy could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// No policy of this name is registered.
    UnknownPolicy {
        /// The name asked for.
        name: String,
        /// Known names.
        known: String,
    },
    /// No identifier of this name is registered.
    UnknownIdentifier {
        /// The name asked for.
        name: String,
        /// Known names.
        known: String,
    },
    /// The policy or identifier has no such parameter.
    UnknownParameter {
        /// The policy or identifier.
        owner: String,
        /// The name asked for.
        name: String,
        /// Known names.
        known: String,
    },
    /// The text is not a value of the parameter.
    BadValue {
        /// The parameter.
        name: String,
        /// The text given.
        text: String,
        /// Description of the values that are valid.
        expected: String,
    },
    /// The parameters, each good on its own, do not go together.
    Contradiction {
        /// The policy or identifier.
        owner: String,
        /// Description of the fault and of the values that are valid.
        reason: String,
    },
    /// The policy decides by itself which pages enter flash.
    NoAdmission {
        /// The policy.
        policy: String,
        /// The policies that let an identifier decide, separated by commas.
        known: String,
    },
    /// The policy replays the hints of an earlier run, and was given none.
    NoHints {
        /// The policy.
        policy: String,
    },
    /// The policy knows the accesses to come, and was not told them.
    NoForesight {
        /// The policy.
        policy: String,
    },
    /// More accesses than an oracle can foresee.
    TooManyAccesses {
        /// The accesses of the trace.
        accesses: u64,
        /// The most that there may be.
        accesses_max: u32,
    },
    /// The policy places the pages of one client.
    OneClient {
        /// The policy.
        policy: String,
        /// The number of clients given.
        clients: u8,
        /// The policies that take several, separated by commas.
        known: String,
    },
    /// The pages of all clients together are more than page ids can count.
    TooManyPages {
        /// Distinct pages.
        pages: u32,
        /// The number of clients given.
        clients: u8,
    },
    /// The policy does not run on this number of cache tiers.
    WrongDepth {
        /// The policy.
        policy: String,
        /// The cache tiers that it runs on, for the message.
        wanted: &'static str,
        /// The number of cache tiers given.
        given: usize,
    },
    /// The buffer is smaller than what the policy evicts at once.
    BufferTooSmall {
        /// The policy.
        policy: String,
        /// Pages of the buffer.
        capacity_pages: u32,
        /// The least capacity.
        min_pages: u32,
    },
    /// The tier needs at least one page.
    EmptyTier {
        /// The policy.
        policy: String,
        /// The tier.
        tier: Tier,
    },
    /// The tier's capacity is beyond what page ids can count.
    TierTooLarge {
        /// The tier.
        tier: Tier,
        /// The capacity asked for.
        capacity_pages: u32,
        /// The greatest capacity.
        max_pages: u32,
    },
}

impl ConfigError {
    /// Parameters that do not go together; `reason` says why, and what would be right.
    pub(crate) fn contradiction(owner: &str, reason: String) -> Self {
        Self::Contradiction { owner: owner.to_owned(), reason }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPolicy { name, known } => {
                write!(f, "unknown policy `{name}`; {known}")
            }
            Self::UnknownIdentifier { name, known } => {
                write!(f, "unknown identifier `{name}`; {known}")
            }
            Self::UnknownParameter { owner, name, known } if known.is_empty() => {
                write!(f, "`{owner}` has no parameter `{name}`: it has none at all")
            }
            Self::UnknownParameter { owner, name, known } => {
                write!(f, "`{owner}` has no parameter `{name}`; {known}")
            }
            Self::Contradiction { owner, reason } => write!(f, "`{owner}`: {reason}"),
            Self::BadValue { name, text, expected } => {
                write!(f, "`{text}` is not a value of `{name}`: expected {expected}")
            }
            Self::NoAdmission { policy, known } => write!(
                f,
                "`{policy}` decides by itself which pages enter flash; an identifier may decide for: {known}"
            ),
            Self::NoHints { policy } => write!(
                f,
                "`{policy}` replays the hints of an earlier run, which only the replay of a trace can record"
            ),
            Self::NoForesight { policy } => write!(
                f,
                "`{policy}` is an oracle: it needs to know the accesses to come, which only the replay of a trace can tell it"
            ),
            Self::TooManyAccesses { accesses, accesses_max } => write!(
                f,
                "an oracle foresees {accesses_max} accesses at most, and the trace has {accesses}: cut the trace"
            ),
            Self::OneClient { policy, clients, known } => write!(
                f,
                "`{policy}` places the pages of one client, and {clients} were given; several may share the lower tiers of: {known}"
            ),
            Self::TooManyPages { pages, clients } => write!(
                f,
                "{clients} clients of {pages} pages have more copies than can be counted: use larger pages, or fewer clients"
            ),
            Self::WrongDepth { policy, wanted, given } => {
                write!(f, "`{policy}` runs on {wanted}, but {given} cache tiers were given")
            }
            Self::BufferTooSmall { policy, capacity_pages, min_pages } => write!(
                f,
                "`{policy}` needs a buffer of at least {min_pages} pages, one flash block, and was given {capacity_pages}: take a larger buffer, or fewer `pages_per_block`"
            ),
            Self::EmptyTier { policy, tier } => {
                let tier = name_of(*tier);
                write!(f, "`{policy}` needs at least one page in the tier {tier}: make it larger")
            }
            Self::TierTooLarge { tier, capacity_pages, max_pages } => write!(
                f,
                "the tier {} cannot hold {capacity_pages} pages: the limit is {max_pages}; use larger pages",
                name_of(*tier)
            ),
        }
    }
}

/// Return the name of a tier: hierarchies of RAM and flash have names of their own.
fn name_of(tier: Tier) -> String {
    match tier.0 {
        0 => "`ram` (or `l1`)".into(),
        1 => "`flash` (or `l2`)".into(),
        further => format!("`l{}`", u32::from(further) + 1),
    }
}

impl core::error::Error for ConfigError {}
