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
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(f.Fields)) {
		if err := w.WriteField(name, f.Fields[name]); err != nil {
			return nil, "", err
		}
	}
	part, err := w.CreateFormFile(f.Name, f.File)
	if err != nil {
		return nil, "", err
	}
	if _, err := part.Write(f.Data); err != nil {
		return nil, "", err
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), w.FormDataContentType(), nil
}
