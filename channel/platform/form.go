package platform

import (
	"bytes"
	"maps"
	"mime/multipart"
	"slices"
)

// Form is the body of a call with a file.
type Form struct {
	Fields map[string]string
	Name   string // of the file's field
	File   string // the name that people see
	Data   []byte
}

// Encode returns the body and its media type.
func (f *Form) Encode() (body []byte, contentType string, err error) {
	var b bytes.Buffer // writing to it cannot fail
	w := multipart.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(f.Fields)) {
		_ = w.WriteField(name, f.Fields[name])
	}
	if part, err := w.CreateFormFile(f.Name, f.File); err == nil {
		_, _ = part.Write(f.Data)
	}
	err = w.Close()
	return b.Bytes(), w.FormDataContentType(), err
}
