package jsonuri

// Pattern matches uris: "*" stands for one segment, "**" for any number of them, none included.
type Pattern struct{}

// CompilePattern reads a pattern. Its other segments are written as in a uri.
func CompilePattern(text string) (*Pattern, error) { panic("jsonuri: not built yet") }

// Match says whether the pattern matches uri. It allocates nothing.
func (p *Pattern) Match(uri []byte) bool { panic("jsonuri: not built yet") }

// Stars returns what the stars of the pattern matched, in uri form (escaped, so that it can be put into another uri).
func (p *Pattern) Stars(uri string) (stars []string, ok bool) { panic("jsonuri: not built yet") }

// String returns the pattern's text.
func (p *Pattern) String() string { panic("jsonuri: not built yet") }
