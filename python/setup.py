"""Tags the wheel with the platform of the program that it carries: any Python 3, one operating system and processor."""
import os

from setuptools import setup
from wheel.bdist_wheel import bdist_wheel


class ProgramWheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", os.environ["L3SIM_PLATFORM"]


setup(cmdclass={"bdist_wheel": ProgramWheel})
