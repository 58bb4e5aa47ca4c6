//! Forests beside a search through all splits, on known functions, and at the ends of all ranges.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{Forest, Samples, Settings, log, power};
use crate::random::SplitMix64;

const SETTINGS: Settings =
    Settings { trees: 16, leaves: 32, leaf_samples: 20, learning_rate: 1 << 14 };

fn samples<const F: usize>(rows: &[([u8; F], u32)]) -> Samples<F> {
    let mut samples = Samples::new();
    for &(row, label) in rows {
        samples.push(row, label);
    }
    samples
}

/// Return the predictions of a forest for its own samples, by a search: each split is tried on
/// lists of samples, and no histogram is kept.
fn searched<const F: usize>(samples: &Samples<F>, settings: &Settings) -> Vec<i64> {
    let labels: Vec<i64> = samples.labels().iter().map(|&label| i64::from(label)).collect();
    let count = i64::try_from(labels.len()).unwrap();
    let mut predicted = vec![labels.iter().sum::<i64>() / count; labels.len()];
    for _ in 0..settings.trees {
        let residuals: Vec<i64> = labels.iter().zip(&predicted).map(|(a, b)| a - b).collect();
        let mut leaves: Vec<Vec<usize>> = vec![(0..labels.len()).collect()];
        while leaves.len() < settings.leaves as usize {
            let splits = (0..leaves.len()).filter_map(|leaf| {
                let split = best_split(&leaves[leaf], samples.rows(), &residuals, settings)?;
                Some((leaf, split))
            });
            let best = splits.reduce(|best, next| if next.1.0 > best.1.0 { next } else { best });
            let Some((leaf, (_, lower, upper))) = best else { break };
            leaves[leaf] = lower;
            leaves.push(upper);
        }
        if leaves.len() == 1 {
            break;
        }
        for leaf in leaves {
            let sum: i64 = leaf.iter().map(|&sample| residuals[sample]).sum();
            let size = i64::try_from(leaf.len()).unwrap();
            let value = sum * i64::from(settings.learning_rate) / (size << 16);
            for sample in leaf {
                predicted[sample] += value;
            }
        }
    }
    predicted.into_iter().map(|label| label.max(0)).collect()
}

/// Return the gain of the best split, and the samples of its sides.
fn best_split<const F: usize>(
    leaf: &[usize],
    rows: &[[u8; F]],
    residuals: &[i64],
    settings: &Settings,
) -> Option<(i128, Vec<usize>, Vec<usize>)> {
    let mut best: Option<(i128, Vec<usize>, Vec<usize>)> = None;
    for (feature, limit) in
        (0..F).flat_map(|feature| (0..=u8::MAX).map(move |limit| (feature, limit)))
    {
        let is_lower = |&sample: &usize| rows[sample][feature] <= limit;
        let (lower, upper): (Vec<usize>, Vec<usize>) = leaf.iter().partition(|s| is_lower(s));
        if lower.len().min(upper.len()) < settings.leaf_samples as usize {
            continue;
        }
        let [a, b] = [&lower, &upper].map(|side| i64::try_from(side.len()).unwrap());
        let [mean_a, mean_b] = [(&lower, a), (&upper, b)]
            .map(|(side, n)| side.iter().map(|&sample| residuals[sample]).sum::<i64>() / n);
        let distance = i128::from(mean_a - mean_b);
        let gain = i128::from(((a * b) << 16) / (a + b)) * distance * distance;
        if gain > best.as_ref().map_or(0, |best| best.0) {
            best = Some((gain, lower, upper));
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_forest_finds_the_splits_of_a_search(
        rows in prop::collection::vec(([0_u8..6, 250..255, 0..2], 0_u32..=1 << 21), 1..60),
        trees in 0_u32..5, leaves in 1_u32..9, leaf_samples in 0_u32..6,
        learning_rate in prop::sample::select(vec![0, 1, 6554, 40_000, 1 << 16]),
    ) {
        let settings = Settings { trees, leaves, leaf_samples: leaf_samples.max(1), learning_rate };
        let samples = samples(&rows);
        let forest = Forest::grow(&samples, &settings);
        let predicted: Vec<i64> =
            samples.rows().iter().map(|row| i64::from(forest.predict(row))).collect();
        prop_assert_eq!(predicted, searched(&samples, &settings));
        prop_assert!(forest.trees() <= trees as usize);
    }

    #[test]
    fn the_order_of_samples_does_not_matter(
        rows in prop::collection::vec((any::<[u8; 2]>(), 0_u32..=1 << 21), 1..300).prop_shuffle(),
    ) {
        let mut sorted = rows.clone();
        sorted.sort_unstable();
        let [forest, other] = [rows, sorted].map(|rows| Forest::grow(&samples(&rows), &SETTINGS));
        prop_assert_eq!(forest, other);
    }
}

/// The label is the product of two features, a third is noise.
#[test]
fn a_forest_fits_a_function_that_it_can_show() {
    let mut draws = SplitMix64::new(5);
    let [mut known, mut unseen] = [vec![], vec![]];
    for step in 0..6000 {
        let [age, distance, noise] = [draws.below(1000), draws.below(500), draws.below(u32::MAX)];
        let row = Samples::row([age, distance, noise]);
        let side = if step < 5000 { &mut known } else { &mut unseen };
        side.push((row, log(age * distance)));
    }
    let forest = Forest::grow(&samples(&known), &Settings { trees: 60, ..SETTINGS });
    let errors = |predict: &dyn Fn(&[u8; 3]) -> u32| {
        let off = unseen.iter().map(|(row, label)| f64::from(predict(row)) - f64::from(*label));
        off.map(|off| off * off).sum::<f64>() / 65_536_f64.powi(2) / unseen.len() as f64
    };
    let mean = u32::try_from(known.iter().map(|row| u64::from(row.1)).sum::<u64>() / 5000).unwrap();
    let [forest, mean] = [errors(&|row| forest.predict(row)), errors(&|_| mean)];
    assert!(forest < mean / 20.0, "squared error {forest:.3}, of the mean {mean:.3}");
}

#[test]
fn one_leaf_predicts_the_mean() {
    for rows in [vec![([1], 7)], vec![([1], 6), ([2], 8)], vec![([1], 6), ([1], 8)]] {
        let settings = Settings { leaves: 1, leaf_samples: 1, ..SETTINGS };
        assert_eq!(Forest::grow(&samples(&rows), &settings).predict(&[9]), 7);
    }
    assert_eq!(Forest::grow(&Samples::<1>::new(), &SETTINGS), Forest::empty());
    assert_eq!(Forest::<1>::empty().predict(&[9]), 0);
}

/// Alternating extremes keep residuals as large as they can be, and a full rate overshoots most.
#[test]
fn extremes_do_not_overflow() {
    let most = Samples::<2>::LABEL_MAX;
    assert_eq!(power(most), u32::MAX);
    for learning_rate in [0, 1, 1 << 16] {
        let rows: Vec<([u8; 2], u32)> = (0_u32..1 << 17)
            .map(|row| {
                let [low, high, ..] = row.to_le_bytes();
                ([low, high], if (low ^ high).count_ones() % 2 == 0 { most } else { 0 })
            })
            .collect();
        let settings = Settings { trees: 6, leaves: 4096, leaf_samples: 1, learning_rate };
        let forest = Forest::grow(&samples(&rows), &settings);
        for row in [[0, 0], [0, u8::MAX], [u8::MAX; 2]] {
            assert!(forest.predict(&row) <= 2 * most, "{row:?}");
        }
    }
}
