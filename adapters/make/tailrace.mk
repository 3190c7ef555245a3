# Gives targets their tags:    tailrace run -o run -- make -f Makefile -f "$(tailrace adapter make)"
#
# To be read last, so that the makefile's own SHELL and .SHELLFLAGS are known: they are what runs each line in the end.
# make expands .SHELLFLAGS anew for each line of a recipe, with the variables of its target, and takes it apart at blanks
# (with .ONESHELL quotes mean nothing), so names are percent-encoded. Where make isn't traced, nothing is changed.

ifeq ($(findstring n,$(firstword -$(MAKEFLAGS))),)
tailrace_folder := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
tailrace_begun := $(shell tailrace adapter make --begin '$(subst ','\'',$(firstword $(MAKEFILE_LIST)))' '$(MAKE_VERSION)')

ifneq ($(tailrace_begun),)
tailrace_nothing :=
tailrace_20 := $(tailrace_nothing) $(tailrace_nothing)
tailrace_23 := \#
tailrace_28 := (
tailrace_29 := )
tailrace_2C := ,
tailrace_3A := :
tailrace_3D := =
tailrace_1 = $(subst *,%2A,$(subst ?,%3F,$(subst [,%5B,$(subst ],%5D,$(subst {,%7B,$(subst },%7D,$(subst %,%25,$1)))))))
tailrace_2 = $(subst ',%27,$(subst ",%22,$(subst `,%60,$(subst \,%5C,$(subst $$,%24,$(subst !,%21,$(subst ~,%7E,$1)))))))
tailrace_3 = $(subst &,%26,$(subst ;,%3B,$(subst |,%7C,$(subst <,%3C,$(subst >,%3E,$(subst ^,%5E,$1))))))
tailrace_4 = $(subst $(tailrace_20),%20,$(subst $(tailrace_23),%23,$(subst $(tailrace_28),%28,$(subst $(tailrace_29),%29,$1))))
tailrace_5 = $(subst $(tailrace_2C),%2C,$(subst $(tailrace_3D),%3D,$(subst $(tailrace_3A),%3A,$1)))
# "=" before each: an empty word would be none.
tailrace_word = =$(call tailrace_5,$(call tailrace_4,$(call tailrace_3,$(call tailrace_2,$(call tailrace_1,$1)))))

tailrace_shell := $(SHELL) $(.SHELLFLAGS)
tailrace_tags := $(call tailrace_word,$(firstword $(tailrace_begun)))
tailrace_file := $(call tailrace_word,$(subst $(firstword $(tailrace_begun))$(tailrace_20),,$(tailrace_begun)))
# The targets whose recipes have begun, encoded, with ":" in the place of "%", which is a pattern; those with blanks again.
tailrace_seen :=
tailrace_spaced :=
tailrace_key = $(subst %,:,$(call tailrace_word,$1))
tailrace_add = $(eval tailrace_seen += $1)$(if $(findstring :20,$1),$(eval tailrace_spaced += $1))
tailrace_first = $(if $(filter $(tailrace_key),$(tailrace_seen)),again,first$(call tailrace_add,$(tailrace_key)))
# Of a list of prerequisites those that are such targets. make separates names by blanks, which they may have themselves.
tailrace_plain = $(filter $(tailrace_seen),$(foreach one,$1,$(call tailrace_key,$(one))))
tailrace_blank = $(foreach one,$(tailrace_spaced),$(if $(findstring $(patsubst =%,%,$(one)),$(tailrace_key)),$(one)))
tailrace_made = $(subst $(tailrace_20),%0A,$(subst :,%,$(sort $(tailrace_plain) $(tailrace_blank))))
# The pattern of a target's rule: make tells the stem alone, which a name may have at several places.
tailrace_try = $(subst $1$*$2,$1%$2,/$@.)
tailrace_or = $(if $(subst /$@.,,$1),$1,$2)
tailrace_found = $(call tailrace_or,$(call tailrace_try,/,.),$(call tailrace_or,$(call tailrace_try,,.),$(call tailrace_try,,)))
tailrace_stage = $(if $*,$(patsubst /%.,%,$(tailrace_found)),$@)

# An argument of a program has at most 128 KiB, and a recipe need not name all prerequisites.
tailrace_few = $(if $(word 500,$1),,$1)
tailrace_words = $(call tailrace_word,$@) $(call tailrace_word,$(tailrace_stage)) $(call tailrace_first,$@) \
  $(call tailrace_word,$(CURDIR)) $(call tailrace_word,$(call tailrace_few,$^)) $(call tailrace_word,$(call tailrace_few,$|)) \
  %0A$(call tailrace_made,$(call tailrace_few,$^ $|))%0A

SHELL := $(tailrace_folder)/sh
.SHELLFLAGS = --tailrace $(tailrace_tags) $(tailrace_file) $(if $@,$(tailrace_words),= = again = = = =) $(tailrace_shell)
endif
endif
