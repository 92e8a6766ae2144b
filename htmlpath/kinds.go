package htmlpath

import "strings"

// rawKind says what text an element holds.
type rawKind uint8

const (
	rawNone rawKind = iota // text, references and elements
	rawText                // text as it stands, up to the end tag
	rawRefs                // text and references, up to the end tag
)

type names map[string]bool

func nameSet(list string) names {
	m := names{}
	for name := range strings.FieldsSeq(list) {
		m[name] = true
	}
	return m
}

// Elements of HTML (WHATWG HTML, 13.1.2 and 13.2.4.2).
var (
	// voidNames hold nothing.
	voidNames = nameSet("area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr")
	// optionalEnds may leave their end tag out.
	optionalEnds = nameSet(`body caption colgroup dd dt head html li optgroup option p rb rp rt rtc tbody td tfoot th thead tr`)
	// scopeNames end the reach of implied ends and of end tags.
	scopeNames = nameSet("applet caption foreignobject html marquee object table td template th")
	tableParts = nameSet("td th tr thead tbody tfoot caption colgroup")
	rawNames   = map[string]rawKind{
		"script": rawText, "style": rawText, "iframe": rawText, "noembed": rawText, "noframes": rawText, "noscript": rawText, "xmp": rawText,
		"textarea": rawRefs, "title": rawRefs,
	}
	knownNames = nameSet(`a abbr acronym address area article aside audio b base bdi bdo big blockquote body br button canvas caption
		center cite code col colgroup data datalist dd del details dfn dialog div dl dt em embed fieldset figcaption figure font
		footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe img input ins kbd label legend li link
		main map mark marquee math menu meta meter nav noscript object ol optgroup option output p param picture pre progress q
		rp rt ruby s samp script search section select slot small source span strike strong style sub summary sup svg table
		tbody td template textarea tfoot th thead time title tr track tt u ul var video wbr`)
)

// implied says what ends where what begins, as far as nothing of within is around it (WHATWG HTML, 13.1.2.4).
var implied = []struct{ begin, ends, within names }{
	{
		nameSet(`address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2 h3
		h4 h5 h6 header hgroup hr listing main menu nav ol p plaintext pre search section summary table ul xmp`),
		nameSet("p"), nameSet("button applet caption foreignobject html marquee object table td template th"),
	},
	{nameSet("li"), nameSet("li"), nameSet("ul ol menu dir table td th template object")},
	{nameSet("dt dd"), nameSet("dt dd"), nameSet("dl table td th template object")},
	{nameSet("option"), nameSet("option"), nameSet("optgroup select datalist table td th template object")},
	{nameSet("optgroup"), nameSet("option optgroup"), nameSet("select datalist table td th template object")},
	{nameSet("td th"), nameSet("td th"), nameSet("tr thead tbody tfoot caption colgroup table template")},
	{nameSet("tr"), nameSet("td th tr"), nameSet("thead tbody tfoot caption colgroup table template")},
	{nameSet("thead tbody tfoot caption colgroup"), tableParts, nameSet("table template")},
	{nameSet("rt rp"), nameSet("rt rp"), nameSet("ruby table td th template object")},
	{nameSet("body"), nameSet("head"), scopeNames},
}

// walls are the elements that an end tag of this name does not reach out of.
func walls(name string) names {
	switch {
	case tableParts[name]:
		return nameSetTable
	case name == "table", name == "template", name == "body", name == "html":
		return nil
	}
	return scopeNames
}

var nameSetTable = nameSet("table template")
