//! Unpacks a target's corpus into a directory of files, and packs one again; for `corpus.sh`.
//!
//! `corpus unpack PACK DIRECTORY`, `corpus pack DIRECTORY PACK`

use std::path::Path;
use std::{env, error, fs};

use rescind_fuzz::pack::{Entries, pack, unpack};

fn main() -> Result<(), Box<dyn error::Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["unpack", from, to] => {
            fs::create_dir_all(to)?;
            for (name, bytes) in unpack(&fs::read(from)?) {
                fs::write(Path::new(to).join(name), bytes)?;
            }
        }
        ["pack", from, to] => {
            let mut entries = Entries::new();
            for file in fs::read_dir(from)? {
                let file = file?;
                let name = file.file_name().into_string().map_err(|_| "a name is not UTF-8")?;
                entries.insert(packed(name), fs::read(file.path())?);
            }
            fs::write(to, pack(&entries))?;
        }
        _ => return Err("corpus unpack PACK DIRECTORY, or corpus pack DIRECTORY PACK".into()),
    }
    Ok(())
}

/// The name of an entry: of a hash that libFuzzer gave, as much as tells entries apart, for most are
/// shorter than that.
fn packed(mut name: String) -> String {
    if name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        name.truncate(8);
    }
    name
}
