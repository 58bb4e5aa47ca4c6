//! Faults of a running engine, in words: what is wrong now, and what went wrong.

use super::status::{DeviceStatus, Extent, Status};
use crate::output;

/// Lost ranges that are named; `/status` has all.
const RANGES_MAX: usize = 5;

/// A fault, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// `true` if it lasts; else it is about what was.
    pub(crate) lasts: bool,
    pub(crate) text: String,
}

/// A counter of events that should never happen, and the sentence that reports it.
struct Counted {
    count: fn(&Status) -> u64,
    one: &'static str,
    many: &'static str,
    remedy: &'static str,
}

const COUNTED: [Counted; 7] = [
    Counted {
        count: |status| status.figures.count("checksum_errors"),
        one: "page came from flash with a wrong checksum, and was not served",
        many: "pages came from flash with a wrong checksum, and were not served",
        remedy: "Drain the cache, and replace the device.",
    },
    Counted {
        count: |status| status.figures.count("flash_failures"),
        one: "operation of the flash failed after all retries",
        many: "operations of the flash failed after all retries",
        remedy: "With more than `flash.error_budget` the engine goes on without the flash: replace the \
                 device.",
    },
    Counted {
        count: |status| errors(&status.flash),
        one: "attempt of an operation of the flash failed",
        many: "attempts of operations of the flash failed",
        remedy: "",
    },
    Counted {
        count: |status| status.figures.count("flash_retired_slots"),
        one: "slot of the flash is not used again until the next start",
        many: "slots of the flash are not used again until the next start",
        remedy: "",
    },
    Counted {
        count: |status| status.figures.count("page_losses"),
        one: "page was lost at some time",
        many: "pages were lost at some time",
        remedy: "Later writes may have healed them.",
    },
    Counted {
        count: |status| errors(&status.backing),
        one: "operation of the backing store failed",
        many: "operations of the backing store failed",
        remedy: "Look at the system's log. Dirty pages stay in the cache and are tried again.",
    },
    Counted {
        count: |status| status.recording.as_ref().map_or(0, |one| one.missing_accesses),
        one: "page access is missing in the recording",
        many: "page accesses are missing in the recording",
        remedy: "The disk of `record.path` is too slow.",
    },
];

fn errors(device: &DeviceStatus) -> u64 {
    device.figures.count("errors")
}

/// Return all faults, those that last first. `before` is a snapshot from `window` ago.
pub(crate) fn faults(now: &Status, before: &Status, window: &str) -> Vec<Fault> {
    let past = COUNTED.iter().filter_map(|counted| {
        let (count, earlier) = ((counted.count)(now), (counted.count)(before));
        (count > 0).then(|| {
            let words = if count == 1 { counted.one } else { counted.many };
            let newer = match count.saturating_sub(earlier) {
                0 => format!("none in {window}"),
                newer => format!("{} in {window}", output::count(newer)),
            };
            let text = format!("{} {words} ({newer}). {}", output::count(count), counted.remedy);
            Fault { lasts: false, text: text.trim_end().to_owned() }
        })
    });
    let lasting = lasting(now).into_iter().map(|text| Fault { lasts: true, text });
    lasting.chain(past).collect()
}

/// Return a sentence for each fault that lasts.
fn lasting(now: &Status) -> Vec<String> {
    let mut faults = vec![];
    if now.is_flash_configured && !now.has_flash {
        faults.push(
            "The flash failed. Pages come from RAM and the backing store, by LRU. `thermocline cache \
             replace` gives the server another flash."
                .to_owned(),
        );
    }
    if now.writes_held {
        faults.push(
            "Writes and flushes fail: the flash failed, and the note of the backing store cannot say \
             so. Free space in the folder of the note, or make it writable; the server tries again \
             every second."
                .to_owned(),
        );
    }
    let lost = now.figures.count("lost_pages");
    if lost > 0 {
        faults.push(format!(
            "Pages whose newest bytes are lost: {}, at {}. Reads of them fail until they are written as a \
             whole: restore them from elsewhere.",
            output::count(lost),
            ranges(&now.lost)
        ));
    }
    if now.recording.as_ref().is_some_and(|recording| recording.has_failed) {
        faults.push(
            "The recording ended because its file cannot be written. Make room on the disk of \
             `record.path`, then reload."
                .to_owned(),
        );
    }
    let budget_bytes = now.figures.real("write_budget_left_bytes");
    if budget_bytes.is_some_and(|bytes| bytes < 1.0) {
        faults.push(
            "The write budget of the flash is spent: clean pages are not copied to flash for now. Raise \
             `flash.write_budget_gib_per_day`, or take a policy that writes less."
                .to_owned(),
        );
    }
    faults
}

/// Ranges of the export, in bytes.
fn ranges(lost: &[Extent]) -> String {
    let range = |one: &Extent| format!("{} + {}", one.offset_bytes, one.length_bytes);
    let mut named = lost.iter().take(RANGES_MAX).map(range).collect::<Vec<_>>().join(", ");
    if lost.len() > RANGES_MAX {
        named += &format!(" and {} more ranges (see /status)", lost.len() - RANGES_MAX);
    }
    format!("offset + length in bytes: {named}")
}

#[cfg(test)]
mod tests {
    use super::super::status::{Figures, RecordingStatus};
    use super::*;

    fn figures(pairs: &[(&str, u64)]) -> Figures {
        let pairs = pairs.iter().map(|&(key, count)| (key.to_owned(), count.into()));
        serde_json::from_value(serde_json::Value::Object(pairs.collect())).unwrap()
    }

    fn texts(now: &Status, before: &Status) -> Vec<String> {
        faults(now, before, "the last hour").into_iter().map(|fault| fault.text).collect()
    }

    #[test]
    fn an_engine_without_faults_has_nothing_to_say() {
        let zeroes = [("checksum_errors", 0), ("lost_pages", 0), ("flash_failures", 0)];
        let fine = Status { has_flash: true, figures: figures(&zeroes), ..Status::default() };
        assert!(texts(&fine, &fine).is_empty());
        let fine = Status { is_flash_configured: false, has_flash: false, ..fine };
        assert!(texts(&fine, &fine).is_empty(), "there was to be no flash");
    }

    #[test]
    fn every_fault_is_named_with_what_to_do() {
        let extent = |place: u64| Extent { offset_bytes: place << 20, length_bytes: 4096 };
        let recording = RecordingStatus { has_failed: true, ..RecordingStatus::default() };
        let now = Status {
            is_flash_configured: true,
            writes_held: true,
            lost: (0..7).map(extent).collect(),
            recording: Some(recording),
            figures: figures(&[
                ("lost_pages", 7),
                ("checksum_errors", 1),
                ("flash_failures", 1200),
                ("write_budget_left_bytes", 0),
            ]),
            backing: DeviceStatus { figures: figures(&[("errors", 3)]), ..Default::default() },
            ..Status::default()
        };
        let before = Status { figures: figures(&[("flash_failures", 1200)]), ..Status::default() };
        let found = faults(&now, &before, "the last hour");
        let lasts: Vec<bool> = found.iter().map(|fault| fault.lasts).collect();
        assert_eq!(lasts, [true, true, true, true, true, false, false, false]);
        for (fault, words) in found.iter().zip([
            "thermocline cache replace",
            "note of the backing store",
            "7, at offset + length in bytes: 0 + 4096, 1048576 + 4096, 2097152 + 4096, 3145728 + 4096, \
             4194304 + 4096 and 2 more ranges",
            "record.path",
            "write budget",
            "1 page came from flash with a wrong checksum, and was not served (1 in the last hour)",
            "1,200 operations of the flash failed after all retries (none in the last hour)",
            "3 operations of the backing store failed (3 in the last hour)",
        ]) {
            assert!(fault.text.contains(words), "{words}: {}", fault.text);
        }
    }
}
