package jsonuri

// Options are the settings of a [Parser]. The zero value parses strictly, without a root, with the default limits.
type Options struct {
	// Root is the uri put in front of every uri.
	Root string
	// Repair mends what models do to JSON instead of refusing it.
	Repair bool
	// Limits; zero means the default.
	MaxDepth  int   // 512
	MaxBytes  int64 // 16 MiB
	MaxKey    int   // 64 KiB
	MaxNumber int   // 4 KiB
}

// Handler is told what a [Parser] finds, in document order. Members that are nil are not called; values are collected
// only where someone listens. Slices are valid only during the call.
type Handler struct {
	// Delta is called for each delta. Prose before the document arrives, in repair mode, at the reserved uri
	// $reasoning_context below the root.
	Delta func(Delta)
	// String is called when a string is complete, with its decoded value.
	String func(uri []byte, value string)
	// Object is called when an object or array is complete, with its JSON text.
	Object func(uri []byte, value []byte)
	// Scalar is called when a number or literal is complete, with its JSON text.
	Scalar func(uri []byte, value []byte)
	// Done is called when any value is complete, after the calls above; it needs nothing collected.
	Done func(uri []byte)
	// Finish is called once, when the document is complete.
	Finish func()
}

// Parser parses one document. Make one with [NewParser].
type Parser struct{}

// NewParser returns a parser that tells h what it finds. o may be nil.
func NewParser(h Handler, o *Options) *Parser { panic("jsonuri: not built yet") }

// Write parses the next chunk, of any size; it keeps no reference to it. The first error ends the document: it is
// returned by every later call too. Errors are *[SyntaxError] and *[LimitError].
func (p *Parser) Write(chunk []byte) (int, error) { panic("jsonuri: not built yet") }

// WriteString is Write for a string.
func (p *Parser) WriteString(chunk string) (int, error) { panic("jsonuri: not built yet") }

// Close ends the input. An unfinished document is an error in strict mode and finished in repair mode; text in which
// there is no document is an error in both ([ErrNoDocument] in repair mode).
func (p *Parser) Close() error { panic("jsonuri: not built yet") }

// MayStop says that reading on is of no use: the document is complete, or nothing but white space has come for 256
// characters outside a string.
func (p *Parser) MayStop() bool { panic("jsonuri: not built yet") }

// Complete says whether the document's text was complete without help (false before its end, and where Close had to finish it).
func (p *Parser) Complete() bool { panic("jsonuri: not built yet") }

// Repairs returns how many repairs of each kind were made; nil when there were none.
func (p *Parser) Repairs() map[string]int { panic("jsonuri: not built yet") }

// Reset makes the parser ready for another document, keeping its settings and memory.
func (p *Parser) Reset() { panic("jsonuri: not built yet") }
