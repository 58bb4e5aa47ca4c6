-- How many suppliers, without complaints, have parts of some sizes, by brand and type.
select p_brand, p_type, p_size, count(distinct ps_suppkey)
from partsupp join part on p_partkey = ps_partkey
where p_size in (3, 9, 14, 19, 23, 36, 45, 49) and p_brand <> 'Brand#45'
and p_type not like 'MEDIUM POLISHED%'
and ps_suppkey not in (select s_suppkey from supplier where s_comment like '%Customer%Complaints%')
group by 1, 2, 3 order by 4 desc, 1, 2, 3;
