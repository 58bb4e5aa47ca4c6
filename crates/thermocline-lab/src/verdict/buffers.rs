//! Verdict on write buffers: the one that erases or flushes least, and the time of its writes.

use super::{Ranked, Ranking, TIE_SHARE, at_sizes, flips, share, ties};
use crate::BufferSummary;
use crate::metric::{byte_size, of_buffers};
use crate::numbers::years_in_words;

impl Ranked for BufferSummary {
    fn name(&self) -> String {
        self.policy.name.clone()
    }

    fn sizes(&self) -> String {
        format!("a buffer of {}", byte_size(u64::from(self.buffer_pages) * self.page_size_bytes))
    }
}

/// Says which write buffer causes the fewest erases, or flushes the fewest pages where nothing is
/// erased; none says nothing, and so do runs of one policy.
pub fn buffers(summaries: &[BufferSummary]) -> Vec<String> {
    let is_erased = summaries.iter().any(|run| run.erase_count().is_some_and(|count| count > 0));
    let (key, does) = if is_erased {
        ("erase_count", "erases the fewest blocks")
    } else {
        ("pages_flushed", "flushes the fewest pages")
    };
    let metric = of_buffers(key);
    let mut sizes: Vec<u32> = summaries.iter().map(|run| run.buffer_pages).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let of_size = |size: u32| {
        let runs = summaries.iter().filter(move |run| run.buffer_pages == size);
        Ranking::new(runs, |run| metric.value(run))
    };
    let mut rankings: Vec<Ranking<'_, BufferSummary>> = sizes.into_iter().map(of_size).collect();
    rankings.retain(Ranking::is_choice);
    let Some(last) = rankings.last() else { return vec![] };
    let (figure, best) = last.best();
    let shown = (metric.show)(figure);
    let mut answer = format!("{} {does} {}{shown}", best.name(), at_sizes(&rankings));
    if let Some((figure, rival)) = last.behind() {
        answer += &format!(", {} fewer than {}", share(last.saved(figure)), rival.name());
    }
    let mut sentences = vec![answer + "."];
    sentences.extend(flips(&rankings));
    sentences.extend(ties(last));
    sentences.extend(response(last));
    sentences.extend(lifetime(last));
    sentences
}

/// Compare the time of writes with that of the buffer whose writes take least.
fn response(ranking: &Ranking<'_, BufferSummary>) -> Option<String> {
    let mean_us = |run: &BufferSummary| Some(run.response_us.as_ref()?.write.mean);
    let of_best = mean_us(ranking.best().1)?;
    let all = ranking.runs.iter().filter_map(|(_, run)| Some((mean_us(run)?, *run)));
    let (least_us, least) = all.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
    let mut text = format!("Its writes take {} on average", span(of_best));
    if least_us < of_best * (1.0 - TIE_SHARE) {
        text += &format!("; those of {}, {}", least.name(), span(least_us));
    }
    Some(text + ".")
}

/// Return a response time in words.
fn span(us: f64) -> String {
    if us < 1000.0 { format!("{us:.0} us") } else { format!("{:.1} ms", us / 1000.0) }
}

/// Describe the lifetime of the drive behind the buffer.
fn lifetime(ranking: &Ranking<'_, BufferSummary>) -> Option<String> {
    let years = ranking.best().1.lifetime_years().filter(|years| years.is_finite())?;
    Some(format!("At this rate the drive behind it lasts {}.", years_in_words(years)))
}

#[cfg(test)]
mod tests {
    use thermocline_device::ResponseUs;

    use super::*;
    use crate::{BufferPolicySummary, ResponseSummary, TraceSummary};

    fn run(policy: &str, buffer_pages: u32, pages_flushed: u64, write_us: f64) -> BufferSummary {
        let of = |mean| ResponseUs { mean, p50: mean, p95: mean, p99: mean, p999: mean, max: mean };
        BufferSummary {
            policy: BufferPolicySummary { name: policy.into(), parameters: serde_json::Map::new() },
            buffer_pages,
            page_size_bytes: 4096,
            page_reads: 0,
            page_writes: 1000,
            read_hits: 0,
            write_hits: 1000 - pages_flushed,
            flushes: pages_flushed,
            pages_flushed,
            pages_resident: 0,
            response_us: Some(ResponseSummary { read: of(1.0), write: of(write_us) }),
            clean_write_hits: 0,
            pages_padded: 0,
            flush_sizes: vec![],
            trace: TraceSummary {
                path: "t.csv".into(),
                page_size_bytes: 4096,
                requests: 1000,
                accesses: 1000,
                reads: 0,
                writes: 1000,
                footprint_pages: 500,
                objects: None,
            },
            ssd: None,
        }
    }

    #[test]
    fn the_buffer_that_spares_flash_is_named_with_its_price() {
        let runs = [
            run("lru", 256, 900, 90.0),
            run("hwb", 256, 600, 80.0),
            run("lru", 512, 800, 1100.0),
            run("hwb", 512, 400, 2200.0),
            run("bpac", 512, 405, 2300.0),
        ];
        assert_eq!(
            buffers(&runs),
            [
                "hwb flushes the fewest pages at both sizes: with a buffer of 2 MiB, 400, 50 % fewer than lru.",
                "As good, within 2.0 %: bpac.",
                "Its writes take 2.2 ms on average; those of lru, 1.1 ms.",
            ]
        );
    }

    #[test]
    fn a_size_at_which_another_wins_is_named() {
        let runs = [
            run("lru", 256, 300, 90.0),
            run("hwb", 256, 600, 90.0),
            run("lru", 512, 200, 90.0),
            run("hwb", 512, 100, 90.0),
        ];
        assert_eq!(buffers(&runs)[1], "Best at other sizes: lru with a buffer of 1 MiB.");
        assert_eq!(buffers(&runs[..1]), [""; 0]);
        assert_eq!(buffers(&[]), [""; 0]);
    }
}
