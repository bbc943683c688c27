"""Which decomposable model fits the table best?"""
