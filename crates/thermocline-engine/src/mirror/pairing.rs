//! The decision of a start about the two members that it finds.

use std::io;

use thiserror::Error;
use uuid::Uuid;

use super::MEMBER_HEAD_BYTES;
use super::label::{Label, NoLabel};
use crate::operation::Member;
use crate::recovery::{FlashError, is_blank};
use crate::storage::Storage;

/// State of a member, as a start finds it.
#[derive(Debug)]
pub enum FoundMember {
    /// There is no such device, or it cannot be read.
    Absent(io::Error),
    /// A device that was never used, or that is being set up.
    Blank,
    /// Something else.
    Foreign,
    /// A label of which no copy is intact.
    Damaged,
    /// A label of a later version.
    Format(u32),
    /// A member.
    Labelled(Label),
}

/// State of a mirrored flash that a note names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Generation of the members in use.
    pub generation: u64,
    /// The only member in use, if the other one failed or was missing.
    pub alone: Option<Member>,
}

/// Facts besides the members, and leave of the operator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// State that the notes of the backing stores name; `None` if none of them names a mirrored flash.
    pub noted: Option<Noted>,
    /// `true` if one member may go on alone.
    pub allows_degraded: bool,
    /// `true` if a member that is blank or of an older generation gets a copy of the other one.
    pub resilvers: bool,
    /// `true` if what the members hold is given up.
    pub forces_init: bool,
}

impl Noted {
    /// Return the place of the member that went on alone, as the note says, if the other one has a label that says
    /// the same of itself: that label was raised, and the note was not, so nothing was acknowledged that this
    /// member lacks.
    fn place_of_alone(self, labels: [Label; 2]) -> Option<usize> {
        let place = labels.iter().position(|label| Some(label.member) == self.alone)?;
        let (alone, other) = (labels[place], labels[1 - place]);
        let is_alone = alone.generation >= self.generation && other.member != alone.member;
        (is_alone && other.is_alone).then_some(place)
    }
}

/// Decision about the members; places are those at which they were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Both are to be set up as a new pair.
    SetUp,
    /// Both are used.
    Both {
        /// The label of each place.
        labels: [Label; 2],
    },
    /// One goes on alone, of a generation that is raised before anything is written.
    Alone {
        /// Place of the member.
        place: usize,
        /// Its label.
        label: Label,
    },
    /// One is copied to the other.
    Resilver {
        /// Place of the source.
        place: usize,
        /// Its label.
        label: Label,
    },
}

/// Reason why a mirrored flash cannot be used. Places are those at which the members were found.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// A member cannot be used, and may have the only copy of what the other one lacks.
    #[error("{which} of the mirrored flash is missing: {error}")]
    Absent {
        /// Which member.
        which: Place,
        /// Error of the device.
        error: io::Error,
    },
    /// A member is blank.
    #[error("{which} of the mirrored flash is blank")]
    Blank {
        /// Which member.
        which: Place,
    },
    /// A member is no member.
    #[error("{which} of the mirrored flash holds something else: check its path")]
    Foreign {
        /// Which member.
        which: Place,
    },
    /// A device is no member, and the other one is none either.
    #[error(
        "{which} of the mirrored flash holds something else, and the other one is not set up: check its path, or \
         erase its beginning"
    )]
    NoMember {
        /// Which member.
        which: Place,
    },
    /// The label of a member is damaged.
    #[error("both copies of the label of {which} of the mirrored flash are damaged")]
    DamagedLabel {
        /// Which member.
        which: Place,
    },
    /// The metadata of a member is damaged beyond its second copies.
    #[error("{which} of the mirrored flash is damaged: {error}")]
    Damaged {
        /// Which member.
        which: Place,
        /// Error of the damaged metadata.
        error: Box<FlashError>,
    },
    /// A later version wrote the label.
    #[error(
        "{which} of the mirrored flash has a label of format {found}, which this program cannot read: use \
         the version that wrote it"
    )]
    Format {
        /// Which member.
        which: Place,
        /// Format of the label.
        found: u32,
    },
    /// A member lacks what was acknowledged since it failed or was missing.
    #[error(
        "{which} of the mirrored flash is outdated: it is of generation {found}, and the flash went on \
         without it to generation {newest}"
    )]
    Outdated {
        /// Which member.
        which: Place,
        /// Its generation.
        found: u64,
        /// The generation of the other one, or that the note names.
        newest: u64,
    },
    /// A member is of the same generation, and was copied or restored.
    #[error(
        "{which} of the mirrored flash is an old copy: it was started {found_epoch} times, and the other one \
         {newest_epoch} times"
    )]
    OldCopy {
        /// Which member.
        which: Place,
        /// Its epoch.
        found_epoch: u64,
        /// The epoch of the other one.
        newest_epoch: u64,
    },
    /// The only member that is there lacks what was acknowledged.
    #[error(
        "no member of the mirrored flash has the newest pages: the newest one found is of generation \
         {found}, and the note of the backing store names {newest}; name the device that was used last"
    )]
    AllOutdated {
        /// The newest generation found.
        found: u64,
        /// Generation that the note names.
        newest: u64,
    },
    /// The members are of different pairs.
    #[error(
        "the two devices are members of different mirrored flashes ({}, {}): check the paths", pairs[0], pairs[1]
    )]
    Mixed {
        /// The pair of each.
        pairs: [Uuid; 2],
    },
    /// Each went on without the other one.
    #[error(
        "both devices of the mirrored flash went on without the other one in generation {generation}: erase \
         the beginning of the one whose pages are not wanted"
    )]
    BothAlone {
        /// Their generation.
        generation: u64,
    },
    /// Both are the same member.
    #[error("the two devices are copies of the same member of a mirrored flash: check the paths")]
    Twice,
    /// A member cannot be read or written.
    #[error("the mirrored flash cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// Place of a member in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub usize);

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0 == 0 { "the first member" } else { "the second member" })
    }
}

impl MirrorError {
    /// Return `true` if the other member may go on alone.
    pub const fn allows_degraded(&self) -> bool {
        match self {
            Self::Absent { .. }
            | Self::Blank { .. }
            | Self::Foreign { .. }
            | Self::DamagedLabel { .. }
            | Self::Damaged { .. }
            | Self::OldCopy { .. }
            | Self::Outdated { .. } => true,
            Self::NoMember { .. }
            | Self::Format { .. }
            | Self::AllOutdated { .. }
            | Self::Mixed { .. }
            | Self::BothAlone { .. }
            | Self::Twice
            | Self::Io(_) => false,
        }
    }

    /// Return the place of the member that it is about, if it is one.
    pub const fn place(&self) -> Option<usize> {
        match self {
            Self::Absent { which, .. }
            | Self::Blank { which }
            | Self::Foreign { which }
            | Self::NoMember { which }
            | Self::DamagedLabel { which }
            | Self::Damaged { which, .. }
            | Self::Format { which, .. }
            | Self::OldCopy { which, .. }
            | Self::Outdated { which, .. } => Some(which.0),
            Self::AllOutdated { .. }
            | Self::Mixed { .. }
            | Self::BothAlone { .. }
            | Self::Twice
            | Self::Io(_) => None,
        }
    }

    /// Return `true` if the other member can be copied to this one.
    pub const fn allows_resilver(&self) -> bool {
        matches!(
            self,
            Self::Blank { .. }
                | Self::Outdated { .. }
                | Self::DamagedLabel { .. }
                | Self::OldCopy { .. }
                | Self::Damaged { .. }
        )
    }
}

impl FoundMember {
    /// Look at a device.
    pub fn look(storage: &mut dyn Storage) -> Self {
        match Self::try_look(storage) {
            Ok(found) => found,
            Err(error) => Self::Absent(error),
        }
    }

    fn try_look(storage: &mut dyn Storage) -> io::Result<Self> {
        // A file that was just made.
        if storage.size_bytes()? < MEMBER_HEAD_BYTES {
            let is_empty = storage.size_bytes()? == 0;
            return Ok(if is_empty { Self::Blank } else { Self::Foreign });
        }
        Ok(match Label::read(storage)? {
            Ok(label) => Self::Labelled(label),
            Err(NoLabel::Blank) => {
                let is_blank = is_blank(storage).map_err(io::Error::other)?;
                if is_blank { Self::Blank } else { Self::Foreign }
            }
            Err(NoLabel::Foreign) => Self::Foreign,
            Err(NoLabel::Damaged) => Self::Damaged,
            Err(NoLabel::Format(found)) => Self::Format(found),
        })
    }

    /// Return `true` if nothing was set up on the device.
    pub fn is_unused(&self) -> bool {
        match self {
            Self::Labelled(label) => label.generation == 0,
            Self::Blank => true,
            Self::Absent(_) | Self::Foreign | Self::Damaged | Self::Format(_) => false,
        }
    }

    /// Return the label of a member whose pair was set up.
    const fn label(&self) -> Option<Label> {
        match self {
            Self::Labelled(label) if label.generation > 0 => Some(*label),
            Self::Labelled(_)
            | Self::Absent(_)
            | Self::Blank
            | Self::Foreign
            | Self::Damaged
            | Self::Format(_) => None,
        }
    }

    /// Return why it is not used beside another one.
    fn refused(self, place: usize) -> MirrorError {
        let which = Place(place);
        match self {
            Self::Absent(error) => MirrorError::Absent { which, error },
            Self::Blank | Self::Labelled(_) => MirrorError::Blank { which },
            Self::Foreign => MirrorError::Foreign { which },
            Self::Damaged => MirrorError::DamagedLabel { which },
            Self::Format(found) => MirrorError::Format { which, found },
        }
    }
}

impl Pairing {
    /// Decide about what was found. Nothing is changed.
    ///
    /// # Errors
    /// Members that must not be used together, or alone.
    pub fn choose(found: [FoundMember; 2], asked: Asked) -> Result<Self, MirrorError> {
        let [one, other] = found;
        let labels = [one.label(), other.label()];
        let is_there = |found: &FoundMember| !matches!(found, FoundMember::Absent(_));
        // A device that is missing keeps what is to be given up, and could come back with that.
        if asked.forces_init && is_there(&one) && is_there(&other) {
            return Ok(Self::SetUp);
        }
        match labels {
            [Some(one), Some(other)] => Self::of_two([one, other], asked),
            [None, None] if one.is_unused() && other.is_unused() => Ok(Self::SetUp),
            [None, None] => Err(match (one, other) {
                (FoundMember::Foreign, _) => MirrorError::NoMember { which: Place(0) },
                (_, FoundMember::Foreign) => MirrorError::NoMember { which: Place(1) },
                (one, other) if one.is_unused() => other.refused(1),
                (one, _) => one.refused(0),
            }),
            [Some(label), None] => Self::of_one((0, label), other, asked),
            [None, Some(label)] => Self::of_one((1, label), one, asked),
        }
    }

    fn of_two(labels: [Label; 2], asked: Asked) -> Result<Self, MirrorError> {
        let [one, other] = labels;
        if one.pair != other.pair {
            return Err(MirrorError::Mixed { pairs: [one.pair, other.pair] });
        }
        // One that was replaced is as outdated as one that failed.
        if one.member == other.member && one.generation == other.generation {
            return Err(MirrorError::Twice);
        }
        if let Some(place) = asked.noted.and_then(|noted| noted.place_of_alone(labels)) {
            let (label, other) = (labels[place], labels[1 - place]);
            let newest = label.generation;
            let which = Place(1 - place);
            let error = MirrorError::Outdated { which, found: other.generation, newest };
            return Self::without((place, label), error, asked);
        }
        let (place, label) = if other.generation > one.generation { (1, other) } else { (0, one) };
        let older = labels[1 - place];
        let generation = label.generation;
        if older.generation == generation && one.is_alone && other.is_alone {
            // Nothing was acknowledged before the note said so.
            return match asked.noted {
                Some(_) => Ok(Self::Both { labels }),
                None => Err(MirrorError::BothAlone { generation }),
            };
        }
        // The note may name a generation newer than both: then neither device has the newest pages.
        check_noted(label, asked)?;
        if older.generation == generation {
            return Ok(Self::Both { labels });
        }
        let error = MirrorError::Outdated {
            which: Place(1 - place),
            found: older.generation,
            newest: label.generation,
        };
        Self::without((place, label), error, asked)
    }

    fn of_one(
        (place, label): (usize, Label),
        other: FoundMember,
        asked: Asked,
    ) -> Result<Self, MirrorError> {
        check_noted(label, asked)?;
        // The set-up of the pair was cut off between its labels.
        if let FoundMember::Labelled(unfinished) = &other
            && unfinished.pair == label.pair
            && label.generation == 1
        {
            return Ok(Self::SetUp);
        }
        Self::without((place, label), other.refused(1 - place), asked)
    }

    /// Decide about a member, by its place and label, whose other one cannot be used for that reason.
    ///
    /// # Errors
    /// The reason, if the operator does not allow what could be done.
    pub fn without(
        (place, label): (usize, Label),
        error: MirrorError,
        asked: Asked,
    ) -> Result<Self, MirrorError> {
        if asked.resilvers && error.allows_resilver() {
            return Ok(Self::Resilver { place, label });
        }
        if asked.allows_degraded && error.allows_degraded() {
            return Ok(Self::Alone { place, label });
        }
        Err(error)
    }
}

/// Refuse a member if the flash went on without it, as the note says.
fn check_noted(label: Label, asked: Asked) -> Result<(), MirrorError> {
    let Some(Noted { generation: newest, alone }) = asked.noted else { return Ok(()) };
    let found = label.generation;
    // Its label was raised, perhaps by several starts, and the note was not: the other one went on later.
    let is_other_alone = alone == Some(label.member.other()) && label.is_alone;
    if newest > found || is_other_alone {
        return Err(MirrorError::AllOutdated { found, newest });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(member: Member, generation: u64, is_alone: bool) -> Label {
        Label { pair: Uuid::from_u128(7), member, generation, is_alone, content_bytes: 0 }
    }

    /// Starts of one member raised its label and could not write the note. Then the other one went on alone, as the
    /// note says.
    #[test]
    fn a_label_that_was_raised_without_its_note_does_not_count() {
        let noted = Noted { generation: 2, alone: Some(Member::Second) };
        let asked = Asked { noted: Some(noted), ..Asked::default() };
        let helped = Asked { allows_degraded: true, ..asked };
        let newest = label(Member::Second, 2, true);
        for generation in 1..5 {
            let raised = label(Member::First, generation, generation > 1);
            let found = || [raised, newest].map(FoundMember::Labelled);
            let refused = Pairing::choose(found(), asked);
            assert!(matches!(refused, Err(MirrorError::Outdated { which: Place(0), .. })));
            let expected = Pairing::Alone { place: 1, label: newest };
            assert_eq!(Pairing::choose(found(), helped).unwrap(), expected, "{generation}");
            let absent = FoundMember::Absent(io::ErrorKind::NotFound.into());
            let alone = Pairing::choose([FoundMember::Labelled(raised), absent], helped);
            assert!(matches!(alone, Err(MirrorError::AllOutdated { .. })), "{generation}");
        }
    }
}
