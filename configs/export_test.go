package configs

// LoadText loads an overlay text and options.
func (ld *Loader) LoadText(file, overlay string, o Options) (*Config, error) {
	l, err := ld.parse(file, overlay)
	if err != nil {
		return nil, err
	}
	r, err := ld.resolveAll([]*layer{l}, o)
	if err != nil {
		return nil, err
	}
	return r.config, nil
}

// Meanings are the meanings of all fields with keys.
var Meanings = meanings

// FormerKeys are the keys that were renamed or removed.
var FormerKeys = formerKeys

// CheckVariants returns the fault in the variants of a system preset's text.
func (ld *Loader) CheckVariants(file, text string) error {
	_, err := ld.parseVariants(file, text)
	return err
}
