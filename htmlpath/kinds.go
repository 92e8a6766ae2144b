package htmlpath

import "strings"

// rawKind says what text an element holds.
type rawKind uint8

const (
	rawNone  rawKind = iota // text, references and elements
	rawText                 // text as it stands, up to the end tag
	rawRefs                 // text and references, up to the end tag
	rawPlain                // text as it stands, up to the end of the input
)

// class is a set of things that hold of an element.
type class uint32

const (
	void     class = 1 << iota // holds nothing
	optional                   // its end tag may be left out
	asIs                       // its text is kept as it is written
	known                      // an element of HTML

	// What may be ended by another's beginning.
	paragraph
	listItem
	term
	choice
	choices
	cell
	row
	rows
	ruby
	head

	// What an implied end does not reach out of.
	list
	terms
	chooser
	table
	rubies
	button
	scope // nor an end tag
)

// foreign is the kind of content that an element holds.
type foreign uint8

const (
	inHTML foreign = iota
	inSVG
	inMath
)

// inside returns what an element of kind k holds where around is around it.
func (around foreign) inside(k *kind) foreign {
	switch {
	case k.enters != inHTML:
		return k.enters
	case k.leaves == around:
		return inHTML
	}
	return around
}

// spelled returns whose rules of spelling the element has that holds inner: its own where it begins foreign content, else those around it.
func (inner foreign) spelled(around foreign) foreign {
	if around != inHTML {
		return around
	}
	return inner
}

// kind is what is known of the elements of one name.
type kind struct {
	name string
	text []byte // the name
	svg  []byte // the name as SVG spells it
	class
	ends   class // what an element of this kind ends by its beginning
	within class // as far as none of these is around it
	raw    rawKind
	enters foreign // what an element of this kind holds
	leaves foreign // where it holds HTML again
	open   int     // elements of this kind that are open
}

func (c class) is(any class) bool { return c&any != 0 }

// kept is 1 where the text of an element is kept as it is written.
func (c class) kept() int {
	if c.is(asIs) {
		return 1
	}
	return 0
}

// walls are the elements that an end tag of this kind does not reach out of.
func (k *kind) walls() class {
	switch {
	case k.is(cell | row | rows):
		return table
	case k.is(table), k.name == "body", k.name == "html":
		return 0
	}
	return scope
}

// kindNamed returns what is known of a name.
func kindNamed(name string) *kind {
	k := &kind{name: name, text: []byte(name)}
	k.svg = k.text
	if spelled, ok := svgNames[name]; ok {
		k.svg = []byte(spelled)
	}
	for class, names := range classes {
		if names[name] {
			k.class |= class
		}
	}
	for _, r := range implied {
		if r.begin[name] {
			k.ends |= r.ends
			k.within |= r.within
		}
	}
	switch name {
	case "script", "style", "iframe", "noembed", "noframes", "noscript", "xmp":
		k.raw = rawText
	case "textarea", "title":
		k.raw = rawRefs
	case "plaintext":
		k.raw = rawPlain
	case "svg":
		k.enters = inSVG
	case "math":
		k.enters = inMath
	}
	switch name {
	case "foreignobject", "desc", "title":
		k.leaves = inSVG
	case "annotation-xml", "mi", "mo", "mn", "ms", "mtext":
		k.leaves = inMath
	}
	return k
}

type names map[string]bool

func nameSet(list string) names {
	m := names{}
	for name := range strings.FieldsSeq(list) {
		m[name] = true
	}
	return m
}

// classes are those of HTML's elements (WHATWG HTML, 13.1.2 and 13.2.4.2).
var classes = map[class]names{
	void: nameSet("area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr"),
	optional: nameSet(`body caption colgroup dd dt head html li optgroup option p rb rp rt rtc tbody td tfoot th thead tr
		plaintext`),
	asIs: nameSet("pre code listing"),

	paragraph: nameSet("p"),
	listItem:  nameSet("li"),
	term:      nameSet("dt dd"),
	choice:    nameSet("option"),
	choices:   nameSet("optgroup"),
	cell:      nameSet("td th"),
	row:       nameSet("tr"),
	rows:      nameSet("thead tbody tfoot caption colgroup"),
	ruby:      nameSet("rt rp"),
	head:      nameSet("head"),

	list:    nameSet("ul ol menu dir"),
	terms:   nameSet("dl"),
	chooser: nameSet("select datalist"),
	table:   nameSet("table template"),
	rubies:  nameSet("ruby"),
	button:  nameSet("button"),
	scope:   nameSet("applet caption foreignobject html marquee object table td template th"),

	known: nameSet(`a abbr acronym address area article aside audio b base bdi bdo big blockquote body br button canvas caption
		center cite code col colgroup data datalist dd del details dfn dialog div dl dt em embed fieldset figcaption figure font
		footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe img input ins kbd label legend li link
		main map mark marquee math menu meta meter nav noscript object ol optgroup option output p param picture pre progress q
		rp rt ruby s samp script search section select slot small source span strike strong style sub summary sup svg table
		tbody td template textarea tfoot th thead time title tr track tt u ul var video wbr`),
}

// implied says what ends where what begins, as far as nothing of within is around it (WHATWG HTML, 13.1.2.4).
var implied = []struct {
	begin        names
	ends, within class
}{
	{nameSet(`address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2 h3
		h4 h5 h6 header hgroup hr listing main menu nav ol p plaintext pre search section summary table ul xmp`), paragraph, scope | button},
	{nameSet("li"), listItem, list | scope},
	{nameSet("dt dd"), term, terms | scope},
	{nameSet("option"), choice, choices | chooser | scope},
	{nameSet("optgroup"), choice | choices, chooser | scope},
	{nameSet("td th"), cell, row | rows | table},
	{nameSet("tr"), cell | row, rows | table},
	{nameSet("thead tbody tfoot caption colgroup"), cell | row | rows, table},
	{nameSet("rt rp"), ruby, rubies | scope},
	{nameSet("body"), head, scope},
}

// svgNames are the elements of SVG whose names have capital letters, by their names in small ones (WHATWG HTML, 13.2.6.5).
var svgNames = func() map[string]string {
	const list = `altGlyph altGlyphDef altGlyphItem animateColor animateMotion animateTransform clipPath feBlend feColorMatrix
		feComponentTransfer feComposite feConvolveMatrix feDiffuseLighting feDisplacementMap feDistantLight feDropShadow feFlood
		feFuncA feFuncB feFuncG feFuncR feGaussianBlur feImage feMerge feMergeNode feMorphology feOffset fePointLight
		feSpecularLighting feSpotLight feTile feTurbulence foreignObject glyphRef linearGradient radialGradient textPath`
	m := map[string]string{}
	for name := range strings.FieldsSeq(list) {
		m[strings.ToLower(name)] = name
	}
	return m
}()

// svgAttributes are the attributes of SVG whose names have capital letters, by their names in small ones (WHATWG HTML,
// 13.2.6.1).
var svgAttributes = func() map[string][]byte {
	const names = `attributeName attributeType baseFrequency baseProfile calcMode clipPathUnits diffuseConstant edgeMode
		filterUnits glyphRef gradientTransform gradientUnits kernelMatrix kernelUnitLength keyPoints keySplines keyTimes
		lengthAdjust limitingConeAngle markerHeight markerUnits markerWidth maskContentUnits maskUnits numOctaves pathLength
		patternContentUnits patternTransform patternUnits pointsAtX pointsAtY pointsAtZ preserveAlpha preserveAspectRatio
		primitiveUnits refX refY repeatCount repeatDur requiredExtensions requiredFeatures specularConstant specularExponent
		spreadMethod startOffset stdDeviation stitchTiles surfaceScale systemLanguage tableValues targetX targetY textLength
		viewBox viewTarget xChannelSelector yChannelSelector zoomAndPan`
	m := map[string][]byte{}
	for name := range strings.FieldsSeq(names) {
		m[strings.ToLower(name)] = []byte(name)
	}
	return m
}()
