//! The `--dialect` option.

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use protocol_core::Dialect;

/// Parses the name of a dialect; `--help` and errors list every name.
pub fn parser() -> impl TypedValueParser<Value = Dialect> {
    let names = Dialect::PRESETS.map(|dialect| dialect.name);
    PossibleValuesParser::new(names)
        .map(|name| Dialect::named(&name).expect("the parser only lets presets through"))
}
