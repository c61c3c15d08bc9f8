package idemhttp

import (
	"crypto/sha256"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"slices"
)

// formOf returns a text that stands for the body of a request whose form was read before, by a middleware outside or the
// scope function: nothing is left of the body, and the handler has the form. Without one there is no text.
func formOf(r *http.Request) (text []byte, err error) {
	if len(r.PostForm) > 0 {
		text = appendText(text, r.PostForm.Encode())
	}
	if r.MultipartForm == nil {
		return text, nil
	}
	for _, field := range slices.Sorted(maps.Keys(r.MultipartForm.File)) {
		for _, file := range r.MultipartForm.File[field] {
			text = appendText(appendText(text, field), file.Filename)
			text = appendText(text, file.Header.Get("Content-Type"))
			if text, err = appendFile(text, file); err != nil {
				return nil, err
			}
		}
	}
	return text, nil
}

// appendFile appends a digest of the content, since nothing bounds its size here.
func appendFile(text []byte, file *multipart.FileHeader) ([]byte, error) {
	f, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(text), nil
}
