package configs

// LoadText loads what an overlay text and the options amount to.
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

// Meanings are those of all fields that keys are of.
var Meanings = meanings

// FormerKeys are the keys that were renamed or removed.
var FormerKeys = formerKeys

// CheckVariants returns what is wrong with the variants of a system preset's text.
func (ld *Loader) CheckVariants(file, text string) error {
	_, err := ld.parseVariants(file, text)
	return err
}
