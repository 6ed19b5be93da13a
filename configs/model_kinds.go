package configs

import (
	"bytes"
	"io"
	"os"
)

const beside = "the model's config.json, which lies beside its weights on Hugging Face"

// modelKinds are kinds of files that users give instead of a config.json, by their first bytes.
var modelKinds = []struct{ magic, what, instead string }{
	{"GGUF", "weights in GGUF", beside + ": those of llama.cpp alone tell no shape that is read here"},
	{"PK\x03\x04", "weights of PyTorch, or a zip archive", beside},
	{"version https://git-lfs", "a pointer of Git LFS", "the file that git lfs pull fetches"},
	{"<", "HTML or XML, such as the page of a failed download", beside},
}

// otherKind describes a file that holds a model's weights or is not text, and what was expected; "" for other files.
func otherKind(path string) (what, instead string) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", ""
	}
	f, err := os.Open(path)
	if err != nil {
		return "", "" // the reader will report the error
	}
	defer f.Close()
	first := make([]byte, 32)
	n, _ := io.ReadFull(f, first)
	first = first[:n]
	for _, k := range modelKinds {
		if bytes.HasPrefix(first, []byte(k.magic)) {
			return k.what, k.instead
		}
	}
	if n > 9 && first[7] == 0 && first[8] == '{' { // the header follows its length of eight bytes
		return "weights in safetensors", beside
	}
	return "", ""
}
