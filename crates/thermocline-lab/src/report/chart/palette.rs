//! Colours and markers: each policy has its own, the same in every chart.

use thermocline_core::hotness::registry as identifiers;
use thermocline_core::registry;

/// Colours that stand out from white and from dark paper, and that colour-blind readers can
/// distinguish together with the markers.
pub(super) const COLOURS: [&str; 8] =
    ["#1f77b4", "#d55e00", "#00875f", "#c2549d", "#a87900", "#7a5ccb", "#0e8a9b", "#9c4a3c"];
/// Colour of everything that is not emphasised.
pub(super) const GREY: &str = "#9aa5af";
/// Markers, as Vega names them.
const MARKERS: [&str; 8] = [
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "triangle-down",
    "cross",
    "triangle-right",
    "triangle-left",
];
/// Dashes and gaps, as wide as a pixel; none is a whole line.
const DASHES: [&[u32]; 3] = [&[], &[7, 4], &[2, 3]];
/// Number of looks.
const LOOKS: usize = COLOURS.len() * MARKERS.len();

/// Look of one line, bar or point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// Its name in the legend.
    pub name: String,
    /// Its colour, as in `#1f77b4`.
    pub colour: &'static str,
    /// Its marker, as Vega names it.
    pub marker: &'static str,
    /// Dashes and gaps of its line in pixels; none if it is whole.
    pub dashes: &'static [u32],
    /// `true` if it stands out. The others are grey.
    pub is_emphasised: bool,
}

/// Return the looks of some names. A policy, write buffer or identifier that is registered has the
/// look of its place there, whatever stands beside it; of two that would look the same, and for any
/// other name, the next that is free.
pub fn styles<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Style> {
    let names: Vec<&str> = names.into_iter().collect();
    let mut looks: Vec<Option<usize>> = vec![None; names.len()];
    let is_free = |looks: &[Option<usize>], look: usize| !looks.contains(&Some(look));
    for (place, name) in names.iter().enumerate() {
        looks[place] = registered(name).filter(|&look| is_free(&looks, look));
    }
    for place in 0..names.len() {
        if looks[place].is_none() {
            // After as many as there are, looks come again.
            looks[place] = (0..LOOKS).find(|&look| is_free(&looks, look)).or(Some(place % LOOKS));
        }
    }
    let style = |(name, look): (&str, Option<usize>)| {
        let look = look.unwrap_or(0);
        Style {
            name: name.into(),
            colour: COLOURS[look % COLOURS.len()],
            marker: MARKERS[(look / COLOURS.len() + look) % MARKERS.len()],
            dashes: DASHES[(look / COLOURS.len()) % DASHES.len()],
            is_emphasised: true,
        }
    };
    names.into_iter().zip(looks).map(style).collect()
}

/// Return the look of a registered name, in any case of letters, with or without parameters after
/// it: its place among those of its kind.
fn registered(name: &str) -> Option<usize> {
    let name = name.split([' ', ',']).next()?.to_ascii_lowercase();
    let place = registry::entries()
        .position(|entry| *entry.name == name)
        .or_else(|| registry::BUFFERS.iter().position(|entry| *entry.name == name))
        .or_else(|| identifiers::entries().iter().position(|entry| *entry.name == name));
    place.map(|place| place % LOOKS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn looks(names: &[&str]) -> Vec<(&'static str, &'static str)> {
        styles(names.iter().copied()).iter().map(|style| (style.colour, style.marker)).collect()
    }

    #[test]
    fn registered_policies_have_looks_of_their_own() {
        let names: Vec<&str> = registry::entries().map(|entry| &*entry.name).collect();
        let all = looks(&names);
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "add a marker: {} policies", names.len());
    }

    #[test]
    fn a_look_stays_whatever_stands_beside_it() {
        let [alone] = looks(&["lru"])[..] else { unreachable!() };
        assert_eq!(looks(&["strange", "hat", "LRU"])[2], alone);
        let three = looks(&["strange", "hat", "lru"]);
        assert_eq!(three.iter().collect::<BTreeSet<_>>().len(), 3);
        assert_eq!(looks(&["lru, flash 4x", "lru flash=2"])[0], alone);
        // A name that is there twice still has two looks.
        assert_eq!(looks(&["lru", "lru"]).iter().collect::<BTreeSet<_>>().len(), 2);
        assert_eq!(looks(&vec!["x"; 2 * LOOKS]).len(), 2 * LOOKS);
    }
}
