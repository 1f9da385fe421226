//! A generated document that takes a language server some time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs, io, process};

use serde_json::{Value, json};

/// The methods of requests about documents begin so.
pub(crate) const DOCUMENT: &str = "textDocument/";
/// Functions in it, unless a server takes too long for them, or no time.
const FUNCTIONS: usize = 300;
/// At least so many,
const FEWEST: usize = 10;
/// and at most.
const MOST: usize = 5000;

/// A language that we can write.
#[derive(Debug)]
struct Language {
    id: &'static str,
    extension: &'static str,
    /// Parts of the names of its servers.
    servers: &'static [&'static str],
    function: fn(usize) -> String,
}

const LANGUAGES: &[Language] = &[
    Language {
        id: "cpp",
        extension: "cpp",
        servers: &["clangd", "ccls"],
        function: |n| format!("int f{n}(int a) {{ int b = a + {n}; return b * {n}; }}\n"),
    },
    Language {
        id: "python",
        extension: "py",
        servers: &["pyright", "pylsp", "python", "jedi", "ruff", "pyrefly", "ty", "zuban"],
        function: |n| format!("def f{n}(a: int) -> int:\n    b = a + {n}\n    return b * {n}\n\n"),
    },
    Language {
        id: "typescript",
        extension: "ts",
        servers: &["typescript", "tsserver", "vtsls", "deno", "biome"],
        function: |n| {
            format!("function f{n}(a: number): number {{ const b = a + {n}; return b * {n}; }}\n")
        },
    },
    Language {
        id: "go",
        extension: "go",
        servers: &["gopls"],
        function: |n| format!("func f{n}(a int) int {{\n\tb := a + {n}\n\treturn b * {n}\n}}\n"),
    },
    Language {
        id: "plaintext",
        extension: "txt",
        servers: &[""],
        function: |n| format!("line {n} of a text\n"),
    },
];

/// The capabilities that servers may offer for a document, each with its request. The costliest comes first.
const PROVIDERS: &[(&str, &str)] = &[
    ("documentSymbolProvider", "textDocument/documentSymbol"),
    ("semanticTokensProvider", "textDocument/semanticTokens/full"),
    ("foldingRangeProvider", "textDocument/foldingRange"),
    ("hoverProvider", "textDocument/hover"),
    ("completionProvider", "textDocument/completion"),
    ("documentFormattingProvider", "textDocument/formatting"),
    ("documentHighlightProvider", "textDocument/documentHighlight"),
    ("definitionProvider", "textDocument/definition"),
    ("referencesProvider", "textDocument/references"),
    ("codeLensProvider", "textDocument/codeLens"),
    ("documentLinkProvider", "textDocument/documentLink"),
    ("inlayHintProvider", "textDocument/inlayHint"),
];

/// A document of a language server's.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    language: &'static Language,
    uri: String,
    functions: usize,
    /// The requests about it that the server offers, of which the first is made.
    methods: Vec<&'static str>,
    /// Some servers work in it, and don't end if it is not there.
    _folder: Option<Arc<Folder>>,
}

/// A folder of our own, for as long as somebody needs it.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        let name = format!("rescind-conform-{}-{:016x}", process::id(), fastrand::u64(..));
        let path = env::temp_dir().join(name);
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A server may have left something there, which may be somebody else's to remove.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn uri(path: &Path) -> String {
    let path = path.to_string_lossy().replace('\\', "/").replace(' ', "%20");
    format!("file:///{}", path.trim_start_matches('/'))
}

impl Document {
    /// One that this server works on, by what it answered to `initialize`; `None` if it offers nothing that
    /// we ask for.
    pub(crate) fn for_server(initialized: &Value, language: Option<&str>) -> Option<Self> {
        let offered = |name: &str| {
            !matches!(initialized["capabilities"][name], Value::Null | Value::Bool(false))
        };
        let all = PROVIDERS.iter().filter(|(provider, _)| offered(provider));
        let methods: Vec<_> = all.map(|(_, method)| *method).collect();
        methods.first()?;
        let name = initialized["serverInfo"]["name"].as_str().unwrap_or_default().to_lowercase();
        let fits = |it: &&Language| match language {
            Some(language) => it.id == language,
            None => it.servers.iter().any(|server| name.contains(server)),
        };
        // A server without a name: Python's and TypeScript's often have none.
        let language = LANGUAGES.iter().find(fits).or(LANGUAGES.last())?;
        // Without a folder it is as if the document had not been saved yet.
        let folder = Folder::new().ok().map(Arc::new);
        let within = folder.as_ref().map_or(Path::new("/nowhere"), |folder| &folder.0);
        let uri = uri(&within.join(format!("generated.{}", language.extension)));
        Some(Self { language, uri, functions: FUNCTIONS, methods, _folder: folder })
    }

    /// One that takes a server so many hundredths of the time.
    pub(crate) fn scaled(&self, hundredths: usize) -> Self {
        let functions = (self.functions * hundredths / 100).clamp(FEWEST, MOST);
        Self { functions, ..self.clone() }
    }

    fn text(&self, more: Option<usize>) -> String {
        let head = if self.language.id == "go" { "package a\n" } else { "" };
        head.to_owned()
            + &more
                .into_iter()
                .chain(0..self.functions)
                .map(self.language.function)
                .collect::<String>()
    }

    /// Params of `textDocument/didOpen`.
    pub(crate) fn opened(&self) -> Value {
        json!({ "textDocument": {
            "uri": self.uri,
            "languageId": self.language.id,
            "version": 1,
            "text": self.text(None),
        } })
    }

    /// Params of `textDocument/didChange`: the whole text, before which stands one function more, each time another.
    pub(crate) fn changed(&self, version: u64) -> Value {
        let more = self.functions + usize::try_from(version).unwrap_or(0);
        self.becomes(&self.text(Some(more)), version)
    }

    /// The same with half of the text, each time the same.
    pub(crate) fn shortened(&self, version: u64) -> Value {
        self.becomes(&self.scaled(50).text(None), version)
    }

    fn becomes(&self, text: &str, version: u64) -> Value {
        json!({
            "textDocument": { "uri": self.uri, "version": version },
            "contentChanges": [{ "text": text }],
        })
    }

    /// Params that name it.
    pub(crate) fn named(&self) -> Value {
        json!({ "textDocument": { "uri": self.uri } })
    }

    /// This document with each of the other requests about it first.
    pub(crate) fn with_others(&self) -> impl Iterator<Item = Self> + use<> {
        let document = self.clone();
        let others = 1..self.methods.len();
        others.map(move |from| Self {
            methods: document.methods[from..].to_vec(),
            ..document.clone()
        })
    }

    /// A request about it.
    pub(crate) fn quick(&self) -> crate::family::Request {
        let method = self.methods[0];
        let mut params = self.named();
        let position = json!({ "line": 1, "character": 5 });
        match method.trim_start_matches(DOCUMENT) {
            "hover" | "completion" | "documentHighlight" | "definition" => {
                params["position"] = position;
            }
            "references" => {
                params["position"] = position;
                params["context"] = json!({ "includeDeclaration": true });
            }
            "inlayHint" => {
                let end = json!({ "line": self.functions, "character": 0 });
                params["range"] = json!({ "start": { "line": 0, "character": 0 }, "end": end });
            }
            "formatting" => params["options"] = json!({ "tabSize": 4, "insertSpaces": true }),
            _ => {}
        }
        crate::family::Request::new(method, params)
    }
}
