# Gives targets their tags:    tailrace run -o run -- make -f Makefile -f "$(tailrace adapter make)"
#
# To be read last, so that the makefile's own SHELL and .SHELLFLAGS are known: they are what runs each line in the end.
# make expands .SHELLFLAGS anew for each line of a recipe, with the variables of its target, and takes it apart at blanks
# (with .ONESHELL quotes mean nothing), so names are percent-encoded. Where make isn't traced, nothing is changed.
# Rejected: `make SHELL=...`, which replaces the makefile's own, so that recipes for bash run in sh.

tailrace_folder := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
tailrace_shell := $(SHELL) $(.SHELLFLAGS)
tailrace_quote = '$(subst ','\'',$1)'

ifdef TAILRACE_MAKE_PLAN
# A make that is to tell its rules (plan.py): it runs no line of a recipe.
tailrace_begun :=
SHELL := $(tailrace_folder)/sh
.SHELLFLAGS = --plan $(if $@,nothing,shell) $(tailrace_shell)
else ifeq ($(findstring n,$(firstword -$(MAKEFLAGS))),)
tailrace_begun := $(shell tailrace adapter make --begin \
  $(call tailrace_quote,$(firstword $(MAKEFILE_LIST))) '$(MAKE_VERSION)')
endif

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
tailrace_encode = $(call tailrace_5,$(call tailrace_4,$(call tailrace_3,$(call tailrace_2,$(call tailrace_1,$1)))))
# "=" before each: an empty word would be none.
tailrace_word = =$(tailrace_encode)

tailrace_tags := $(call tailrace_word,$(firstword $(tailrace_begun)))
tailrace_file := $(call tailrace_word,$(subst $(firstword $(tailrace_begun))$(tailrace_20),,$(tailrace_begun)))
# The pattern of a target's rule: make tells the stem alone, which a name may have at several places.
tailrace_try = $(subst $1$*$2,$1%$2,/$@.)
tailrace_or = $(if $(subst /$@.,,$1),$1,$2)
tailrace_found = $(call tailrace_or,$(call tailrace_try,/,.),$(call tailrace_or,$(call tailrace_try,,.),$(call tailrace_try,,)))
tailrace_stage = $(if $*,$(patsubst /%.,%,$(tailrace_found)),$@)
# make's `export` leaves variables alone that have a "." in their names.
tailrace_first = $(if $(tailrace.ran.$1),again,first$(eval tailrace.ran.$1 := x))
tailrace_key = $(subst %,^,$(tailrace_encode))
tailrace_words = $(call tailrace_word,$@) $(call tailrace_word,$(tailrace_stage)) $(call tailrace_first,$(call tailrace_key,$@))

SHELL := $(tailrace_folder)/sh
.SHELLFLAGS = --tailrace $(tailrace_tags) $(tailrace_file) $(if $@,$(tailrace_words),= = again) $(tailrace_shell)
endif

ifneq ($(tailrace_begun)$(TAILRACE_MAKE_PLAN),)
# make tries to remake each makefile by the makefile's own patterns; this one is an installation's. It is never the
# default goal, and names that would not be one target are left alone.
ifneq ($(.DEFAULT_GOAL),)
ifeq ($(words $(subst %,x x,$(lastword $(MAKEFILE_LIST)))),1)
$(lastword $(MAKEFILE_LIST)): ;
endif
endif

# A makefile that exports all variables would have them expanded for each recipe.
unexport $(filter tailrace_%,$(.VARIABLES))
endif
