//! Verdict of a plan: the choice to buy, its lifetime, the cheapest choice, and those that are not
//! recommended.

use super::{share, sizes_in_words};
use crate::numbers::{four_digits, grouped};
use crate::planning::{Choice, Objective, Plan};

/// Says what the plan recommends, and what stands beside it.
pub fn plan(found: &Plan) -> Vec<String> {
    let Some(chosen) = found.front.get(found.chosen) else { return vec![] };
    let cost = |one: &Choice| format!("{} {}", four_digits(one.cost), found.currency);
    let mut sentences = vec![format!(
        "Buy {} and run {}: it costs {} with the disk and {}.",
        sizes(found, chosen),
        chosen.policy.label(),
        cost(chosen),
        does(found, chosen)
    )];
    sentences.push(match chosen.lifetime_in_words() {
        Some(span) => format!("Its flash lasts {span}."),
        None if chosen.flash_pages > 0 => "It never writes its flash.".into(),
        None => "It has no flash that could wear out.".into(),
    });
    if let Some(cheapest) = found.front.first().filter(|one| one.cost < chosen.cost) {
        sentences.push(format!(
            "The cheapest choice, {} with {}, costs {} ({} less) and {}.",
            sizes(found, cheapest),
            cheapest.policy.label(),
            cost(cheapest),
            share(1.0 - cheapest.cost / chosen.cost),
            does(found, cheapest)
        ));
    }
    let figure = |choice: &Choice| choice.figure(found.objective);
    let tempting = found.struck_out.iter();
    let tempting =
        tempting.min_by(|one, other| figure(&one.choice).total_cmp(&figure(&other.choice)));
    if let Some(one) = tempting {
        let mut text = format!(
            "Not recommended: {} with {}; {}",
            sizes(found, &one.choice),
            one.choice.policy.label(),
            one.reason
        );
        if found.struck_out.len() > 1 {
            text += &format!("; and {} more, below", grouped(found.struck_out.len() as u64 - 1));
        }
        sentences.push(text + ".");
    }
    sentences
}

fn sizes(found: &Plan, choice: &Choice) -> String {
    let caches = [("ram", choice.ram_pages), ("flash", choice.flash_pages)];
    let bought = caches.into_iter().filter(|(_, pages)| *pages > 0);
    sizes_in_words(bought.map(|(name, pages)| (name, pages * found.trace.page_size_bytes)))
}

/// Describe the figures of a choice that the question is about.
fn does(found: &Plan, choice: &Choice) -> String {
    match found.objective {
        Objective::P99 => format!("answers 99 % of the requests within {:.0} us", choice.p99_us),
        Objective::IoTime => {
            format!("needs {} s of I/O time", four_digits(choice.io_time_ms / 1000.0))
        }
        Objective::CostPerIo => format!(
            "comes to {} {} per I/O per second",
            four_digits(choice.cost_per_io),
            found.currency
        ),
    }
}
