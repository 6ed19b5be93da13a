// Package docs holds the pages of evidence: how the models are built, what they were compared with, and what was found. README.md lists
// them. Its tests hold tables and numbers to what commands print.
package docs
