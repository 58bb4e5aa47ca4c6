//! Every identifier that there is: one row each.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::{BoxedIdentifier, count_min, dam, fms, mbf, mhf, two_level_lru, wdac};

use crate::config::{ConfigError, Parameter, Values};

/// One registered identifier.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name, by which users choose it.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Who published it, where.
    pub source: &'static str,
    /// Its parameters, in the order in which they are listed.
    pub parameters: &'static [Parameter],
    build: fn(u32, &Values) -> Result<BoxedIdentifier, ConfigError>,
}

/// All identifiers, in the order in which they are listed.
pub const ENTRIES: &[Entry] = &[
    Entry {
        name: "mbf",
        summary: "several bloom filters, filled in turn and erased in turn, the younger weighing more",
        source: "Park, Du: Hot Data Identification Using Multiple Bloom Filters, MSST 2011",
        parameters: mbf::PARAMETERS,
        build: |_pages, values| Ok(Box::new(mbf::Mbf::new(values)?)),
    },
    Entry {
        name: "mhf",
        summary: "one counting bloom filter, all counters halved after every period",
        source: "Hsieh, Kuo, Chang: Efficient Identification of Hot Data, TOS 2(1), 2006",
        parameters: mhf::PARAMETERS,
        build: |_pages, values| Ok(Box::new(mhf::Mhf::new(values)?)),
    },
    Entry {
        name: "dam",
        summary: "one counter per page, all halved after every period: the exact baseline of MHF",
        source: "Hsieh, Kuo, Chang: Efficient Identification of Hot Data, TOS 2(1), 2006",
        parameters: dam::PARAMETERS,
        build: |pages, values| Ok(Box::new(dam::Dam::new(pages, values))),
    },
    Entry {
        name: "wdac",
        summary: "every write of a window weighed by its age: the exact baseline of MBF",
        source: "Park, Du: Hot Data Identification Using Multiple Bloom Filters, MSST 2011",
        parameters: wdac::PARAMETERS,
        build: |pages, values| Ok(Box::new(wdac::Wdac::new(pages, values)?)),
    },
    Entry {
        name: "two-level-lru",
        summary: "two LRU lists; a page written again as a candidate becomes hot",
        source: "Chang, Kuo: An Adaptive Striping Architecture for Flash Memory, RTAS 2002",
        parameters: two_level_lru::PARAMETERS,
        build: |pages, values| Ok(Box::new(two_level_lru::TwoLevelLru::new(pages, values))),
    },
    Entry {
        name: "fms",
        summary: "the time of every page's last write; hot if it is not long ago",
        source: "Chiang, Lee, Chang: Managing Flash Memory in Personal Communication Devices, ISCE 1997",
        parameters: fms::PARAMETERS,
        build: |pages, values| Ok(Box::new(fms::Fms::new(pages, values))),
    },
    Entry {
        name: "count-min",
        summary: "a count-min sketch per generation of a window, the younger weighing more",
        source: "Cormode, Muthukrishnan, J. Algorithms 55(1), 2005; Estan, Varghese, SIGCOMM 2002",
        parameters: count_min::PARAMETERS,
        build: |_pages, values| Ok(Box::new(count_min::CountMin::new(values)?)),
    },
];

/// The identifier of that name.
///
/// # Errors
/// [`ConfigError::UnknownIdentifier`] if there is none; it names those that there are.
pub fn find(name: &str) -> Result<&'static Entry, ConfigError> {
    ENTRIES.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let known: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
        ConfigError::UnknownIdentifier { name: name.to_owned(), known: known.join(", ") }
    })
}

/// All identifiers, in the order in which they are listed.
pub fn entries() -> &'static [Entry] {
    ENTRIES
}

impl Entry {
    /// The parameters' values: the defaults, with those given by name and text in their place.
    ///
    /// # Errors
    /// An unknown name, or a text that is no value of its parameter.
    pub fn values(&self, given: &[(String, String)]) -> Result<Values, ConfigError> {
        Values::resolve(self.name, self.parameters, given)
    }

    /// Builds the identifier for page ids below `pages`, with nothing recorded.
    ///
    /// # Errors
    /// Parameters that do not go together.
    pub fn build(&self, pages: u32, values: &Values) -> Result<BoxedIdentifier, ConfigError> {
        (self.build)(pages, values)
    }

    /// Builds the identifier with its default parameters.
    ///
    /// # Errors
    /// None; the defaults go together.
    pub fn build_default(&self, pages: u32) -> Result<BoxedIdentifier, ConfigError> {
        self.build(pages, &self.values(&[])?)
    }
}
