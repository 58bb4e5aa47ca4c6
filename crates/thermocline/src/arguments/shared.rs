//! The options that all tiers of a hierarchy share, made of the rows of the lab.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};
use thermocline_lab::spec::{
    HIERARCHY_OPTIONS, HierarchyOption, HierarchySpec, OptionKind, OptionWord, hierarchy_option,
};

/// A hierarchy that has nothing but what these options say.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedOptions(pub(crate) HierarchySpec);

impl Args for SharedOptions {
    fn augment_args(command: Command) -> Command {
        command.args(HIERARCHY_OPTIONS.iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SharedOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut options = Self::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        let Self(spec) = self;
        for HierarchyOption { key, kind, .. } in HIERARCHY_OPTIONS {
            match kind {
                OptionKind::Words(words) => {
                    if let Some(text) = matches.get_one::<String>(key) {
                        (word(words, text).set)(spec);
                    }
                }
                OptionKind::Name { set, .. } => {
                    if let Some(name) = matches.get_one::<String>(key) {
                        set(spec, name.clone());
                    }
                }
                OptionKind::Text { set, .. } => {
                    if let Some(text) = matches.get_one::<String>(key) {
                        set(spec, text).map_err(|reason| {
                            Error::raw(ErrorKind::ValueValidation, format!("{reason}\n"))
                        })?;
                    }
                }
                OptionKind::Count { set, .. } => {
                    if let Some(count) = matches.get_one::<u32>(key) {
                        set(spec, *count);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Takes the words of an option, and gives the field that they set.
///
/// # Panics
/// If no option of that key takes words.
pub(super) fn words_of<T: Clone + Send + Sync + 'static>(
    key: &str,
    field: fn(HierarchySpec) -> T,
) -> impl TypedValueParser<Value = T> {
    let words = words(key);
    possible(words).map(move |text| {
        let mut spec = HierarchySpec::default();
        (word(words, &text).set)(&mut spec);
        field(spec)
    })
}

/// Return the word that an option has if none is given.
///
/// # Panics
/// If no option of that key takes words.
pub(super) fn default_word(key: &str) -> &'static str {
    words(key)[0].word
}

/// Return the flag of an option, as `--write-miss` of `write_miss`.
pub(crate) fn flag_of(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

fn argument(option: &HierarchyOption) -> Arg {
    let HierarchyOption { key, summary, only_with, kind } = option;
    let with = only_with.map(|(other, word)| format!(" (with {} {word})", flag_of(other)));
    let help = format!("{summary}{}", with.unwrap_or_default());
    let argument = Arg::new(*key).long(key.replace('_', "-"));
    match kind {
        OptionKind::Words(words) => argument
            .help(help)
            .value_name("HOW")
            .value_parser(possible(words))
            .default_value(words[0].word),
        OptionKind::Name { of, .. } => {
            argument.help(format!("{help}; see `thermocline {of}s`")).value_name(of.to_uppercase())
        }
        OptionKind::Text { example, set } => {
            let set = *set;
            let checked = move |text: &str| {
                set(&mut HierarchySpec::default(), text).map(|()| text.to_owned())
            };
            let help = format!("{help}, as in `{example}`");
            argument.help(help).value_name("HOW").value_parser(checked)
        }
        OptionKind::Count { .. } => {
            argument.help(help).value_name("N").value_parser(value_parser!(u32).range(1..))
        }
    }
}

fn possible(words: &[OptionWord]) -> PossibleValuesParser {
    let values = words.iter().map(|word| PossibleValue::new(word.word).help(word.summary));
    PossibleValuesParser::new(values)
}

fn words(key: &str) -> &'static [OptionWord] {
    let OptionKind::Words(words) = hierarchy_option(key).kind else {
        panic!("`{key}` takes words");
    };
    words
}

fn word(words: &'static [OptionWord], text: &str) -> &'static OptionWord {
    words.iter().find(|word| word.word == text).expect("clap takes these words only")
}
