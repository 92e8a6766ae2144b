// Package playground is the page at /: it runs workflows and talks to agents, and shows what comes while it comes. It is written in
// TypeScript (src), bundled by tools/web, and what that makes (dist) is built into the binary.
//
// # Guarantees
//   - The page loads nothing from anywhere else, and its Content-Security-Policy lets it run nothing but its own two scripts.
//   - What it loads has a hash in its name and may be kept for good; the page itself is asked for anew each time.
//   - An answer is compressed once in the life of the process, and only if a client wants it.
package playground

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/web/wire"
)

//go:embed dist/index.html dist/assets
var dist embed.FS

// policy is what the page may do. Nothing inline, nothing foreign, no frame around it, and no text becomes script. The frame that previews
// HTML inherits it: styles of that HTML become style sheets with data: addresses, and only the Trusted Types policy "preview" fills the frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' data:; connect-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types preview"

// The caching of what has a hash in its name, and of what has none.
const (
	forGood = "public, max-age=31536000, immutable"
	anew    = "no-cache"
)

// file is one of the page's files, in both encodings that it is sent in.
type file struct {
	media, cache, tag string
	plain             []byte
	packed            func() []byte // nil where it is no smaller
}

var media = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// files are the page's by their paths.
var files = sync.OnceValue(func() map[string]*file {
	all := map[string]*file{}
	err := fs.WalkDir(dist, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		plain, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(plain)
		f := &file{media: media[path.Ext(name)], cache: anew, plain: plain}
		// A weak one is the same for both encodings.
		f.tag = `W/"` + hex.EncodeToString(sum[:8]) + `"`
		f.packed = sync.OnceValue(func() []byte { return pack(plain) })
		at := strings.TrimPrefix(name, "dist")
		switch base := path.Base(at); {
		case at == "/index.html":
			at = "/"
		case strings.Contains(strings.TrimSuffix(base, path.Ext(base)), "-"):
			f.cache = forGood
		}
		all[at] = f
		return nil
	})
	if err != nil {
		panic("playground: " + err.Error()) // what is in the binary can be read
	}
	return all
})

// pack compresses a text; nil where that does not help.
func pack(text []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is one
	_, _ = w.Write(text)                                  // a buffer takes all
	_ = w.Close()
	if b.Len() >= len(text) {
		return nil
	}
	return b.Bytes()
}

// Has says whether there is something at a path: "/" is the page, "/assets/…" what it loads.
func Has(path string) bool { return files()[path] != nil }

// Serve answers a GET or HEAD for what is at its path; see [Has].
func Serve(w http.ResponseWriter, r *http.Request) {
	f := files()[r.URL.Path]
	if f == nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", f.cache)
	h.Set("ETag", f.tag)
	h.Add("Vary", "Accept-Encoding")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY") // for those who do not know frame-ancestors
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	body := f.plain
	if wire.Quality(strings.Join(r.Header.Values("Accept-Encoding"), ","), "gzip") > 0 {
		if packed := f.packed(); packed != nil {
			body = packed
			h.Set("Content-Encoding", "gzip")
			h.Set("Content-Length", strconv.Itoa(len(body)))
		}
	}
	h.Set("Content-Type", f.media)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}
