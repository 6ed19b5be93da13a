package llm

// otherFiles are JSON files found next to a config.json, each identified by a key that it alone has.
var otherFiles = []struct{ key, what string }{
	{"weight_map", "the index of a checkpoint's weights"}, {"tokenizer_class", "the configuration of a tokeniser"}, {"added_tokens", "a tokeniser"},
	{"peft_type", "the configuration of an adapter (LoRA), whose base_model_name_or_path is the model"}, {"image_processor_type", "the configuration of an image processor"},
	{"n_layers", "params.json of Meta's or Mistral's own form"}, {"modelId", "an answer of Hugging Face's hub"}, {"_diffusers_version", "the configuration of a diffusion model"},
	{"temperature", "the configuration of generation"}, {"eos_token_id", "the configuration of generation"},
}

// otherFile returns which file the keys are from, "" if unknown.
func otherFile(keys map[string]any) string {
	for _, f := range otherFiles {
		if _, has := keys[f.key]; has && keys["model_type"] == nil {
			return f.what
		}
	}
	return ""
}
