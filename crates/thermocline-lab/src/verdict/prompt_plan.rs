//! Verdict of a plan for prompts: the choice to buy, its drive's lifetime, the cheapest choice, and
//! those that are not recommended.

use super::{share, sizes_in_words};
use crate::numbers::{four_digits, grouped, two_decimals};
use crate::planning::{KvChoice, KvObjective, KvPlan};

/// Says what the plan recommends, and what stands beside it.
pub fn prompt_plan(found: &KvPlan) -> Vec<String> {
    let Some(chosen) = found.front.get(found.chosen) else { return vec![] };
    let mut sentences = vec![format!(
        "Buy {} and run {}: it costs {} {}, {} % of the tokens hit, and {}.",
        sizes(chosen),
        chosen.label(),
        four_digits(chosen.cost),
        found.currency,
        two_decimals(chosen.token_hit_ratio * 100.0),
        does(found, chosen)
    )];
    match (&chosen.drive, chosen.lifetime_in_words()) {
        (Some(drive), Some(span)) => {
            let factor = chosen.write_amplification.unwrap_or(1.0);
            sentences.push(format!(
                "Its drive, a `{drive}`, lasts {span} at a write amplification of {factor:.2}."
            ));
        }
        (Some(_), None) => sentences.push("It never writes its drive.".into()),
        (None, _) => sentences.push("It has no drive that could wear out.".into()),
    }
    if let Some(cheapest) = found.front.first().filter(|one| one.cost < chosen.cost) {
        sentences.push(format!(
            "The cheapest choice, {} with {}, costs {} less and {}.",
            sizes(cheapest),
            cheapest.label(),
            share(1.0 - cheapest.cost / chosen.cost),
            does(found, cheapest)
        ));
    }
    let figure = |choice: &KvChoice| choice.figure(found.objective);
    let tempting = found.struck_out.iter();
    let tempting =
        tempting.min_by(|one, other| figure(&one.choice).total_cmp(&figure(&other.choice)));
    if let Some(one) = tempting {
        let more = match found.struck_out.len() {
            1 => String::new(),
            count => format!("; and {} more, below", grouped(count as u64 - 1)),
        };
        sentences.push(format!(
            "Not recommended: {} with {}; {}{more}.",
            sizes(&one.choice),
            one.choice.label(),
            one.reason
        ));
    }
    sentences
}

fn sizes(choice: &KvChoice) -> String {
    sizes_in_words(choice.tiers.iter().map(|tier| (tier.name.as_str(), tier.capacity_bytes)))
}

/// Describe the figures of a choice that the question is about.
fn does(found: &KvPlan, choice: &KvChoice) -> String {
    let seconds = |seconds: f64| format!("{} s", four_digits(seconds));
    match found.objective {
        KvObjective::FirstToken => {
            format!("the first token comes after {} on average", seconds(choice.first_token_mean_s))
        }
        KvObjective::P99 => {
            format!("99 % of first tokens come within {}", seconds(choice.first_token_p99_s))
        }
        KvObjective::CostPerToken => format!(
            "a million tokens cost {} {}",
            four_digits(choice.dollars_per_million_tokens.unwrap_or(0.0)),
            found.currency
        ),
    }
}
